"""The ingestion engine: connector contracts, the ledger, the parsers and the stages of a sync.

Independent of Prefect and of any particular kind of source, so tests and benchmarks can run it without a server.
"""

__version__ = "0.1.0"
