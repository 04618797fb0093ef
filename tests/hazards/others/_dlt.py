"""The shared part of both dlt programs."""

from pathlib import Path

import dlt
from _protocol import NAMES, Held
from dlt.sources.filesystem import filesystem


def files(folder: Path):
    """Return the files of a folder."""
    found = filesystem(bucket_url=folder.as_uri(), file_glob="**/*")
    return found.add_filter(lambda file: Path(file["relative_path"]).suffix in NAMES)


def bring_in(state: Path, source, disposition: str) -> Held:
    """Ingest the source with this write disposition."""
    target = dlt.destinations.duckdb(str(state / "notes.duckdb"))
    places = {"pipelines_dir": str(state / "pipelines"), "destination": target, "dataset_name": "library"}
    pipeline = dlt.pipeline("notes", **places)
    read = dlt.transformer(_texts, name="notes", primary_key="path", write_disposition=disposition)
    pipeline.run(source | read)
    texts = {}
    with pipeline.sql_client() as client, client.execute_query("SELECT path, text FROM notes") as rows:
        for path, text in rows.fetchall():
            texts.setdefault(path, []).append(text)
    return Held(texts)


def _texts(found):
    for file in found:
        yield {"path": file["relative_path"], "text": file.read_bytes().decode("utf-8", "replace")}
