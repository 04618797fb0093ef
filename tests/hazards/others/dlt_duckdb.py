"""dlt to DuckDB: its filesystem source, incremental by the time of writing, merged by path, as its documentation proposes.

https://dlthub.com/docs/dlt-ecosystem/verified-sources/filesystem/basic ("Incremental loading"). What is deleted stays: an
incremental source is told of what is new only.

Needs: dlt[duckdb,filesystem]
"""

import dlt
from _dlt import bring_in, files
from _said import answer


def changed(folder):
    """The files that were written since the last time."""
    found = files(folder)
    found.apply_hints(incremental=dlt.sources.incremental("modification_date"))
    return found


if __name__ == "__main__":
    answer(lambda state, folder: bring_in(state, changed(folder), "merge"))
