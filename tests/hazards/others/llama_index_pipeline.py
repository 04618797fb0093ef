"""LlamaIndex's ingestion pipeline with a document store, configured to follow changes and deletions.

https://docs.llamaindex.ai/en/stable/module_guides/loading/ingestion_pipeline/ ("Document Management", with the strategy
that deletes missing documents), and https://docs.llamaindex.ai/en/stable/module_guides/loading/simpledirectoryreader/.

Needs: llama-index-core llama-index-readers-file docx2txt
"""

import contextlib
import io
import re
from pathlib import Path

from llama_index.core import SimpleDirectoryReader
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from _protocol import NAMES, Held, answer  # isort: skip


def bring_in(state: Path, folder: Path) -> Held:
    """Ingest the folder."""
    pipeline = IngestionPipeline(
        transformations=[MockEmbedding(8)],
        docstore=SimpleDocumentStore(),
        vector_store=SimpleVectorStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    kept = state / "pipeline"
    if kept.exists():
        pipeline.load(str(kept))
    reader = SimpleDirectoryReader(str(folder), recursive=True, required_exts=list(NAMES), filename_as_id=True)
    # The reader prints the files that it could not read.
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        documents = reader.load_data()
    pipeline.run(documents=documents)
    pipeline.persist(str(kept))
    texts = {}
    for held in pipeline.docstore.docs.values():
        texts.setdefault(path(held.metadata["file_path"], folder), []).append(held.get_content())
    unread = re.findall(r"Failed to load file (.+?) with error", printed.getvalue())
    return Held(texts, [path(one, folder) for one in unread])


def path(name: str, folder: Path) -> str:
    """Return the path relative to the folder."""
    return Path(name).relative_to(folder).as_posix()


if __name__ == "__main__":
    answer(bring_in)
