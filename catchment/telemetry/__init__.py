"""What is measured, and what follows from it: the catalogue, counts on their way, objectives, baselines, rules of incidents.

Pure: nothing here reads a clock, a file or the ledger. `catchment.ledger.measures` stores the figures, and `catchment.views`
shows them.
"""
