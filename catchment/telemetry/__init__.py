"""The measurements and their evaluation: the catalogue, pending counts, objectives, baselines, rules of incidents.

Pure: no module here reads a clock, a file or the ledger. `catchment.ledger.measures` stores the figures, and `catchment.views`
shows them.
"""
