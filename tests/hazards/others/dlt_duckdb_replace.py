"""dlt to DuckDB: its filesystem source, replacing all rows on each run, which is dlt's way to follow deletions.

https://dlthub.com/docs/general-usage/full-loading

Needs: dlt[duckdb,filesystem]
"""

from _dlt import bring_in, files
from _protocol import answer

if __name__ == "__main__":
    answer(lambda state, folder: bring_in(state, files(folder), "replace"))
