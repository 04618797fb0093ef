"""Search: a query as a person types it, read, widened to word forms and likely spellings, and matched.

    language.py    from text to a query with filters
    widen.py       word forms, and corrections of words that occur nowhere
    search.py      the whole of it: `search`

The SQL is in `catchment.ledger.library`; how hits look is up to the console.
"""
