"""dlt to DuckDB: its filesystem source, incremental by modification time, merged by path. No chunks and no index.

`python dlt_duckdb.py FOLDER STATE` prints JSON with the number of stored files.
"""

import hashlib
import json
import sys
from pathlib import Path

import dlt
from dlt.sources.filesystem import filesystem


@dlt.transformer(name="notes", primary_key="path", write_disposition="merge")
def read(found):
    """Yield the row of each file."""
    for file in found:
        data = file.read_bytes()
        yield {
            "path": file["relative_path"],
            "size": file["size_in_bytes"],
            "modified": file["modification_date"],
            "text": data.decode(),
            "hash": hashlib.sha256(data).hexdigest(),
        }


def main(folder: Path, state: Path) -> None:
    """Ingest the files that were modified since the last run."""
    files = filesystem(bucket_url=folder.as_uri(), file_glob="**/*.md")
    files.apply_hints(incremental=dlt.sources.incremental("modification_date"))
    target = dlt.destinations.duckdb(str(state / "notes.duckdb"))
    pipeline = dlt.pipeline("notes", str(state / "pipelines"), destination=target, dataset_name="library")
    pipeline.run(files | read)
    with pipeline.sql_client() as client, client.execute_query("SELECT count(*) FROM notes") as rows:
        print(json.dumps({"stored": rows.fetchone()[0]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
