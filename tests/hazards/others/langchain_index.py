"""LangChain's indexing API with full clean-up, a record manager in SQLite, and the vector store that comes with it.

Needs: langchain-classic langchain-community greenlet
"""

import json
import sys
from pathlib import Path

from langchain_classic.indexes import SQLRecordManager
from langchain_community.document_loaders import DirectoryLoader, TextLoader
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import index
from langchain_core.vectorstores import InMemoryVectorStore


def main(state: Path, folder: Path) -> None:
    """Bring the folder in, and print what is held."""
    kept, model = state / "vectors.json", DeterministicFakeEmbedding(size=8)
    store = InMemoryVectorStore.load(str(kept), model) if kept.exists() else InMemoryVectorStore(model)
    records = SQLRecordManager("notes", db_url=f"sqlite:///{state / 'records.db'}")
    records.create_schema()
    loader = DirectoryLoader(str(folder), glob="**/*.md", loader_cls=TextLoader, silent_errors=True)
    index(loader.load(), records, store, cleanup="full", source_id_key="source", key_encoder="sha256")
    store.dump(str(kept))
    texts = {}
    for held in store.store.values():
        path = Path(held["metadata"]["source"]).relative_to(folder).as_posix()
        texts.setdefault(path, []).append(held["text"])
    print(json.dumps({"texts": texts, "named": []}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
