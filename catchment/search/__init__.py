"""Search: parse a query, widen it, match it by words and by meaning, fuse both rankings, present the hits.

    language.py    from text to a query with filters
    widen.py       word forms, and corrections of words that do not occur
    search.py      the whole search: `search`
    fuse.py        one ranking from two
    related.py     documents near a document
    remote.py      the same search by the web process, which keeps the model in memory

The SQL is in `catchment.ledger.library`, the vectors are in `catchment.search.meaning`. The console formats the hits.
"""
