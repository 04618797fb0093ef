"""dlt to DuckDB: the verified filesystem source, incremental by the time of writing, merged by path.

Needs: dlt[duckdb,filesystem]
"""

import json
import sys
from pathlib import Path

import dlt
from dlt.sources.filesystem import filesystem


@dlt.transformer(name="notes", primary_key="path", write_disposition="merge")
def read(files):
    """The text of each note."""
    for file in files:
        yield {"path": file["relative_path"], "text": file.read_bytes().decode("utf-8", "replace")}


def main(state: Path, folder: Path) -> None:
    """Bring the folder in, and print what is held."""
    files = filesystem(bucket_url=folder.as_uri(), file_glob="**/*.md")
    files.apply_hints(incremental=dlt.sources.incremental("modification_date"))
    target = dlt.destinations.duckdb(str(state / "notes.duckdb"))
    pipeline = dlt.pipeline("notes", pipelines_dir=str(state / "pipelines"), destination=target, dataset_name="library")
    pipeline.run(files | read)
    texts = {}
    with pipeline.sql_client() as client, client.execute_query("SELECT path, text FROM notes") as rows:
        for path, text in rows.fetchall():
            texts.setdefault(path, []).append(text)
    print(json.dumps({"texts": texts, "named": []}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
