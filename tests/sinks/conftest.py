"""A library in a ledger, and a place of each kind of sink with a reader that does not use the sink's code."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import httpx
import neo4j
import orjson
import psycopg
import pytest
from psycopg import sql

import sinks
from catchment.ledger import Ledger
from catchment.ledger.sinks.outbox import LAST_ID
from catchment.sync.supply import DeliveryCounts, deliver
from tests.ledger.conftest import new_postgres, postgres
from tests.ledger.world import Clock, World
from tests.postgres_server import BINARIES
from tests.waiting import until

__all__ = ["new_postgres", "postgres"]

_CHROMA = Path(__file__).parents[2] / "build" / "sinks" / "bin" / "chroma"
_ARCADE = _CHROMA.with_name("python")
GRAPH_PASSWORD = "playwithdata1"
_SERVE_GRAPH = """
import pathlib, sys, arcadedb_embedded
root, http, bolt, password = sys.argv[1:]
settings = {"http_port": int(http), "bolt_port": int(bolt), "host": "127.0.0.1"}
settings["server_plugins"] = "Bolt:com.arcadedb.bolt.BoltProtocolPlugin"
server = arcadedb_embedded.create_server(root, root_password=password, config=settings)
server.start()
server.create_database("library")
pathlib.Path(root, "ready").touch()
sys.stdin.read()
"""
_NUMBERS = itertools.count()
_FRONT = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a sink of a kind, and its contents: the source, title and text of each document, by ID."""

    kind: str
    place: str
    read: Callable[[], Mapping[int, tuple[str, str, str]]]
    secret: str | None = None

    def shown(self, document: tuple[str, str, str]) -> tuple[str, str, str]:
        """Return a document as `read` returns it."""
        return (*document[:2], "") if self.kind in ("chroma", "neo4j") else document

    @contextmanager
    def away(self) -> Iterator[None]:
        """Make the place unusable for the duration of the block."""
        self._rename("catchment", "away")
        yield
        self._rename("away", "catchment")

    def copied(self, folder: Path) -> Callable[[], None]:
        """Copy the whole place into a new folder, as a backup does, and return a function that puts the copy back."""
        folder.mkdir(parents=True)
        if self.kind == "postgresql":
            return _copied_postgresql(self.place, folder / "dump.sql")
        if self.kind == "chroma":
            return _copied_chroma(self.place)
        if self.kind == "neo4j":
            return _copied_graph(self.place)
        return _copied_folder(Path(self.place), folder / "copy")

    def emptied(self) -> None:
        """Delete all documents as another program does, and leave the rest."""
        if self.kind == "postgresql":
            with psycopg.connect(self.place, autocommit=True) as connection:
                connection.execute("TRUNCATE catchment.documents CASCADE")
        elif self.kind == "chroma":
            for name in ("", "-documents"):
                collection = _chroma_collection(self.place, name)
                ids = httpx.post(f"{collection}/get", json={"include": []}).json()["ids"]
                if ids:
                    httpx.post(f"{collection}/delete", json={"ids": ids}).raise_for_status()
        elif self.kind == "neo4j":
            with graph_session(self.place, GRAPH_PASSWORD) as session:
                session.run("MATCH (n) WHERE NOT n:Catchment DETACH DELETE n").consume()
        else:
            # As `rm -r *` does.
            for entry in Path(self.place).glob("[!.]*"):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _rename(self, name: str, to: str) -> None:
        if self.kind == "neo4j":
            with graph_session(self.place, GRAPH_PASSWORD) as session:
                session.run(f"MERGE (m:{name.title()} {{key: 'sink'}})").consume()
                session.run(f"MATCH (m:{name.title()}) REMOVE m:{name.title()} SET m:{to.title()}").consume()
        elif self.kind == "chroma":
            base, _, collection = self.place.rpartition("/")
            api = f"{base}/api/v2/tenants/default_tenant/databases/default_database/collections"
            ending = {"catchment": "", "away": "-away"}
            found = httpx.get(f"{api}/{collection}{ending[name]}").json()["id"]
            httpx.put(f"{api}/{found}", json={"new_name": f"{collection}{ending[to]}"}).raise_for_status()
        elif self.kind == "postgresql":
            with psycopg.connect(self.place, autocommit=True) as connection:
                connection.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(*map(sql.Identifier, (name, to))))
        else:
            (Path(self.place) / f".{name}").rename(Path(self.place) / f".{to}")


def _copied_folder(root: Path, copy: Path) -> Callable[[], None]:
    shutil.copytree(root, copy)

    def put_back() -> None:
        shutil.rmtree(root)
        shutil.copytree(copy, root)

    return put_back


def _copied_postgresql(address: str, file: Path) -> Callable[[], None]:
    subprocess.run([BINARIES / "pg_dump", "--schema=catchment", f"--file={file}", address], check=True)

    def put_back() -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP SCHEMA catchment CASCADE")
        load = [BINARIES / "psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={file}", address]
        subprocess.run(load, check=True, stdout=subprocess.DEVNULL)

    return put_back


def _chroma_collection(address: str, ending: str) -> str:
    """Return the address of a collection of the sink by its ID."""
    base, _, name = address.rpartition("/")
    api = f"{base}/api/v2/tenants/default_tenant/databases/default_database/collections"
    return f"{api}/{httpx.get(f'{api}/{name}{ending}').json()['id']}"


def _copied_chroma(address: str) -> Callable[[], None]:
    kept = {}
    for ending in ("", "-documents"):
        collection = _chroma_collection(address, ending)
        name = f"{address.rpartition('/')[2]}{ending}"
        known = httpx.get(f"{collection.rpartition('/')[0]}/{name}").json()
        query = {"include": ["metadatas", "documents", "embeddings"]}
        kept[name] = (known["metadata"], httpx.post(f"{collection}/get", json=query).json())

    def put_back() -> None:
        api = _chroma_collection(address, "").rpartition("/")[0]
        for name, (metadata, rows) in kept.items():
            httpx.delete(f"{api}/{name}").raise_for_status()
            body = {"name": name, "metadata": metadata, "configuration": {"hnsw": {"space": "cosine"}}}
            made = httpx.post(api, json=body).raise_for_status().json()["id"]
            if rows["ids"]:
                given = {key: rows[key] for key in ("ids", "metadatas", "documents", "embeddings")}
                httpx.post(f"{api}/{made}/upsert", json=given).raise_for_status()

    return put_back


def _copied_graph(address: str) -> Callable[[], None]:
    with graph_session(address, GRAPH_PASSWORD) as session:
        nodes = session.run("MATCH (n) RETURN id(n) AS id, labels(n) AS labels, properties(n) AS facts").data()
        query = "MATCH (a)-[r]->(b) RETURN id(a) AS a, id(b) AS b, type(r) AS type, properties(r) AS facts"
        relations = session.run(query).data()

    def put_back() -> None:
        with graph_session(address, GRAPH_PASSWORD) as session:
            session.run("MATCH (n) DETACH DELETE n").consume()
            for node in nodes:
                query = f"CREATE (n:{node['labels'][0]}) SET n = $facts SET n.copied = $id"
                session.run(query, id=node["id"], facts=node["facts"]).consume()
            for each in relations:
                query = (
                    f"MATCH (a {{copied: $a}}), (b {{copied: $b}}) CREATE (a)-[r:{each['type']}]->(b) SET r = $facts"
                )
                session.run(query, a=each["a"], b=each["b"], facts=each["facts"]).consume()
            session.run("MATCH (n) REMOVE n.copied").consume()

    return put_back


def _in_folder(root: Path) -> Mapping[int, tuple[str, str, str]]:
    found = {}
    for file in root.rglob("*.md"):
        match = _FRONT.fullmatch(file.read_text())
        assert match
        fields: dict[str, Any] = {
            line.partition(": ")[0]: orjson.loads(line.partition(": ")[2]) for line in match[1].split("\n")
        }
        assert fields["catchment"] not in found, "two files of one document"
        found[fields["catchment"]] = (fields["source"], fields["title"], match[2])
    return found


def _in_lines(root: Path) -> Mapping[int, tuple[str, str, str]]:
    lines = [orjson.loads(line) for file in root.glob("*.jsonl") for line in file.read_bytes().splitlines()]
    return {line["id"]: (line["source"], line["title"], line["text"]) for line in lines}


def _in_postgresql(address: str) -> Mapping[int, tuple[str, str, str]]:
    with psycopg.connect(address) as connection:
        rows = connection.execute("SELECT id, source, title, text FROM catchment.documents").fetchall()
        chunks = connection.execute("SELECT document, text FROM catchment.chunks").fetchall()
    assert sorted(chunks) == sorted((row[0], row[3]) for row in rows), "each document of these tests is one chunk"
    return {row[0]: row[1:] for row in rows}


def _in_chroma(address: str) -> Mapping[int, tuple[str, str, str]]:
    """Return the documents on the server, without texts: without embeddings, it has only the rows of the titles."""
    base, _, name = address.rpartition("/")
    api = f"{base}/api/v2/tenants/default_tenant/databases/default_database/collections"
    found = httpx.get(f"{api}/{name}-documents").json()["id"]
    rows = httpx.post(f"{api}/{found}/get", json={"include": ["metadatas"]}).json()["metadatas"]
    return {row["document"]: (row["source"], row["title"], "") for row in rows}


def _in_graph(address: str, password: str) -> Mapping[int, tuple[str, str, str]]:
    with graph_session(address, password) as session:
        rows = session.run("MATCH (d:Document) RETURN d.id AS id, d.source AS source, d.title AS title").data()
        alone = session.run("MATCH (n) WHERE NOT (n)--() AND NOT n:Catchment RETURN n.key AS key").data()
    assert alone == [], "nothing is left of deleted documents"
    return {row["id"]: (row["source"], row["title"], "") for row in rows}


@contextmanager
def graph_session(address: str, password: str) -> Iterator[neo4j.Session]:
    """Open a session with the user and the database of an address."""
    base, _, database = address.rpartition("/")
    with (
        neo4j.GraphDatabase.driver(base.replace("root@", ""), auth=("root", password)) as driver,
        driver.session(database=database) as session,
    ):
        yield session


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server with Bolt and an empty database; yields its address."""
    if not _ARCADE.exists():
        pytest.skip("ArcadeDB is not installed; see .ci/run")
    folder = tmp_path_factory.mktemp("graph")
    ports = [str(_free_port()), str(_free_port())]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [_ARCADE, "-c", _SERVE_GRAPH, str(folder / "data"), *ports, GRAPH_PASSWORD],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
        ) as server,
    ):
        try:
            until(lambda: (folder / "data" / "ready").exists() or server.poll() is not None, bool)
            yield f"bolt://root@127.0.0.1:{ports[1]}/library"
        finally:
            server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Chroma server on a free port; yields its address."""
    if not _CHROMA.exists():
        pytest.skip("Chroma is not installed; see .ci/run")
    folder = tmp_path_factory.mktemp("chroma")
    port = _free_port()
    command = [_CHROMA, "run", "--host", "127.0.0.1", "--port", str(port), "--path", folder]
    environment = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment) as server,
    ):
        try:
            until(lambda: _answers(port), bool)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v2/heartbeat").is_success
    except httpx.HTTPError:
        return False


def _in_parquet(root: Path) -> Mapping[int, tuple[str, str, str]]:
    files = [str(file) for file in root.glob("*.parquet")]
    query = "SELECT id, source, title, text FROM read_parquet($1)"
    return {row[0]: row[1:] for row in duckdb.execute(query, [files]).fetchall()} if files else {}


@pytest.fixture(
    params=[
        "folder",
        "jsonl",
        pytest.param("parquet", marks=pytest.mark.full),
        pytest.param("postgresql", marks=pytest.mark.postgres),
        pytest.param("chroma", marks=pytest.mark.full),
        pytest.param("neo4j", marks=pytest.mark.full),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place of each kind of sink."""
    root = tmp_path / "place"
    match request.param:
        case "folder":
            return Place("folder", str(root), lambda: _in_folder(root))
        case "parquet":
            return Place("parquet", str(root), lambda: _in_parquet(root))
        case "neo4j":
            address = request.getfixturevalue("graph")
            with graph_session(address, GRAPH_PASSWORD) as session:
                session.run("MATCH (n) DETACH DELETE n").consume()
            (tmp_path / "password").write_text(GRAPH_PASSWORD)
            (tmp_path / "password").chmod(0o600)
            secret = f"file:{tmp_path / 'password'}"
            return Place("neo4j", address, lambda: _in_graph(address, GRAPH_PASSWORD), secret)
        case "chroma":
            address = f"{request.getfixturevalue('chroma')}/copy-{next(_NUMBERS)}"
            return Place("chroma", address, lambda: _in_chroma(address))
        case "postgresql":
            address = request.getfixturevalue("postgres").replace("postgresql+psycopg", "postgresql")
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("DROP SCHEMA IF EXISTS catchment CASCADE")
            return Place("postgresql", address, lambda: _in_postgresql(address))
        case _:
            return Place("jsonl", str(root), lambda: _in_lines(root))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A ledger on SQLite."""
    url, clock = f"sqlite:///{tmp_path / 'ledger.db'}", Clock()
    made = World(url, clock, Ledger.open(url, clock=clock, monotonic=clock.steady))
    yield made
    assert made.ledger.check() == []
    made.ledger.close()


@pytest.fixture
def supplied(world: World, place: Place) -> World:
    """A ledger with the new sink `copy`, before its first delivery."""
    with sinks.opened(place.kind, place.place, place.secret, create=True) as made:
        wants = made.wants_vectors
    world.ledger.outbox.add("copy", place.kind, place.place, place.secret, "operator:anna", wants_vectors=wants)
    return world


def supply(ledger: Ledger, name: str = "copy") -> DeliveryCounts:
    """Bring the sink up to date."""
    counts = DeliveryCounts()
    deliver(ledger, name, sinks.opened, lambda: True, counts)
    return counts


def library(ledger: Ledger) -> Mapping[int, tuple[str, str, str]]:
    """Return source, title and text of each document, by ID."""
    documents = ledger.outbox.documents(ledger.outbox.versions(0, LAST_ID))
    return {document.id: (document.source, document.title, document.text) for document in documents}
