"""LangChain's indexing API with full clean-up, a record manager in SQLite, and its default vector store.

https://python.langchain.com/docs/how_to/indexing ("full" clean-up deletes documents that the loader no longer returns).
Loaders: https://python.langchain.com/docs/how_to/document_loader_directory (errors are logged; encodings are detected).

Needs: langchain-classic langchain-community greenlet chardet pypdf docx2txt
"""

import logging
import re
from pathlib import Path

from langchain_classic.indexes import SQLRecordManager
from langchain_community.document_loaders import DirectoryLoader, Docx2txtLoader, PyPDFLoader, TextLoader
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import index
from langchain_core.vectorstores import InMemoryVectorStore

from _protocol import Held, answer  # isort: skip

LOADERS = {"md": (TextLoader, {"autodetect_encoding": True}), "pdf": (PyPDFLoader, {}), "docx": (Docx2txtLoader, {})}


class Named(logging.Handler):
    """The files that a loader reported as unreadable."""

    def __init__(self) -> None:
        super().__init__()
        self.paths = []

    def emit(self, record: logging.LogRecord) -> None:
        self.paths += re.findall(r"Error loading file (.+?)(?::|$)", record.getMessage())


def bring_in(state: Path, folder: Path) -> Held:
    """Ingest the folder."""
    named = Named()
    logging.getLogger("langchain_community").addHandler(named)
    kept, model = state / "vectors.json", DeterministicFakeEmbedding(size=8)
    store = InMemoryVectorStore.load(str(kept), model) if kept.exists() else InMemoryVectorStore(model)
    records = SQLRecordManager("notes", db_url=f"sqlite:///{state / 'records.db'}")
    records.create_schema()
    documents = []
    for suffix, (loader, options) in LOADERS.items():
        files = DirectoryLoader(
            str(folder), f"**/*.{suffix}", silent_errors=True, loader_cls=loader, loader_kwargs=options
        )
        documents += files.load()
    index(documents, records, store, cleanup="full", source_id_key="source", key_encoder="sha256")
    store.dump(str(kept))
    texts = {}
    for held in store.store.values():
        texts.setdefault(path(held["metadata"]["source"], folder), []).append(held["text"])
    return Held(texts, [path(one, folder) for one in named.paths])


def path(name: str, folder: Path) -> str:
    """Return the path relative to the folder."""
    return Path(name).relative_to(folder).as_posix()


if __name__ == "__main__":
    answer(bring_in)
