"""Search: read a query, widen it, match it by words and by meaning, fuse both rankings, present the hits.

    search.py      the whole search: `search`
    search_plan.py the lanes that take part, the match of words, the results by meaning
    language.py    from text to a query with filters
    widen.py       word forms, and corrections of words that do not occur
    fuse.py        one ranking from two
    task_search.py the tasks in documents, for `type:task`
    present.py     from ranked contents to hits with excerpts
    results.py     hits, and how a query was understood; also over HTTP
    related.py     documents near a document
    remote.py      the same search by the web process, which keeps the model in memory
    meaning/       search by meaning: models, the vectors of the passages, and making missing ones

The SQL is in `catchment.ledger.library`: a `Query` becomes SQL in `query_sql`. The console formats the hits.
"""
