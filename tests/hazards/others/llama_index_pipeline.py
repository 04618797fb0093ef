"""LlamaIndex's ingestion pipeline with a document store, told to follow changes and deletions.

Needs: llama-index-core
"""

import json
import sys
from pathlib import Path

from llama_index.core import SimpleDirectoryReader
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore


def main(state: Path, folder: Path) -> None:
    """Bring the folder in, and print what is held."""
    pipeline = IngestionPipeline(
        transformations=[MockEmbedding(8)],
        docstore=SimpleDocumentStore(),
        vector_store=SimpleVectorStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    kept = state / "pipeline"
    if kept.exists():
        pipeline.load(str(kept))
    reader = SimpleDirectoryReader(str(folder), recursive=True, required_exts=[".md"], filename_as_id=True)
    pipeline.run(documents=reader.load_data())
    pipeline.persist(str(kept))
    texts = {}
    for held in pipeline.docstore.docs.values():
        path = Path(held.metadata["file_path"]).relative_to(folder).as_posix()
        texts.setdefault(path, []).append(held.get_content())
    print(json.dumps({"texts": texts, "named": []}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
