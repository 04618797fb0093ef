"""dlt to DuckDB: its filesystem source, incremental by modification time, merged by path, as its documentation
proposes.

https://dlthub.com/docs/dlt-ecosystem/verified-sources/filesystem/basic ("Incremental loading"). Deleted files stay: an
incremental source reports only new files.

Needs: dlt[duckdb,filesystem]
"""

import dlt
from _dlt import bring_in, files
from _protocol import answer


def changed(folder):
    """Return the files modified since the last run."""
    found = files(folder)
    found.apply_hints(incremental=dlt.sources.incremental("modification_date"))
    return found


if __name__ == "__main__":
    answer(lambda state, folder: bring_in(state, changed(folder), "merge"))
