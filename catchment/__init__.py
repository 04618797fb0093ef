"""The engine of Catchment: what an item, a job and a document are, and how one becomes the other.

Knows nothing of Prefect and nothing of any one kind of source; it can be driven in a test or a benchmark with no server.
"""

__version__ = "0.1.0"
