"""Fresh ledgers for each test: always on SQLite; on PostgreSQL in `make test-rest` and `make soak`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from catchment.ledger import Ledger
from catchment.ledger.db.schema import metadata
from catchment.ledger.library.word_index import INDEXES
from catchment.ledger.sinks import outbox
from tests.ledger.world import Clock, World
from tests.postgres_server import PostgresServer, is_installed


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty ledger to copy."""
    file = tmp_path_factory.mktemp("template") / "ledger.db"
    Ledger.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture(scope="session")
def new_postgres() -> Iterator[Callable[[], PostgresServer]]:
    """Return a function that makes a server; call its `start`. All are stopped at the end."""
    if not is_installed():
        pytest.skip("PostgreSQL 15 is not installed")
    with ExitStack() as ends:

        def make() -> PostgresServer:
            server = PostgresServer(Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="ledger-pg-"))))
            ends.callback(server.stop)
            return server

        yield make


@pytest.fixture(scope="session")
def postgres(new_postgres: Callable[[], PostgresServer]) -> str:
    """A server with one ledger; its URL."""
    server = new_postgres()
    server.start("-c", "fsync=off")
    Ledger.open(server.url).close()
    return server.url


@pytest.fixture(scope="session")
def postgres_ledger(postgres: str) -> Iterator[Ledger]:
    """One ledger for all tests on PostgreSQL, so that connections and compiled statements are shared."""
    ledger = Ledger.open(postgres)
    yield ledger
    ledger.close()


@pytest.fixture
def empty_postgres(postgres_ledger: Ledger, postgres: str) -> str:
    """Empty the PostgreSQL ledger and return its URL. The history guard is disabled while the tables are emptied."""
    kept = {"revision", "chain", "counters"}
    tables = ", ".join([*(name for name in metadata.tables if name not in kept), *INDEXES, "index_words"])
    with postgres_ledger._store.engine.begin() as connection:
        outbox.unwatch(connection)
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text(f"TRUNCATE {tables}"))
        connection.execute(text("UPDATE counters SET value = 0"))
        connection.execute(text("UPDATE chain SET length = 0, hash = ''"))
        connection.execute(text("INSERT INTO search_model (id, setting) VALUES (1, 'use')"))
    return postgres


@pytest.fixture
def empty_database(postgres: str) -> Iterator[str]:
    """A PostgreSQL database without tables; yields its URL."""
    engine = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE other"))
    yield postgres.replace("/postgres?", "/other?")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE other WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    file = tmp_path / "ledger.db"
    shutil.copy2(sqlite_template, file)
    return f"sqlite:///{file}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses `world` on both databases; database-independent code runs on PostgreSQL only in soaks."""
    if "world" in metafunc.fixturenames:
        differs = metafunc.definition.get_closest_marker("databases") is not None
        marks = pytest.mark.postgres if differs else pytest.mark.soak
        metafunc.parametrize("world", ["sqlite", pytest.param("postgres", marks=marks)], indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest, clock: Clock) -> Iterator[World]:
    """A source and an open sync, on either database. All invariants are checked at the end."""
    if request.param == "sqlite":
        made = request.getfixturevalue("sqlite_world")
        yield made
        assert made.ledger.check() == []
        return
    url = request.getfixturevalue("empty_postgres")
    ledger: Ledger = request.getfixturevalue("postgres_ledger")
    ledger._store._clock = clock
    ledger._monotonic.__init__(clock.steady)  # type: ignore[misc]
    made = World(url, clock, ledger)
    yield made
    assert made.ledger.check() == []
    if made.ledger is not ledger:
        made.ledger.close()


@pytest.fixture
def sqlite_world(sqlite_url: str, clock: Clock) -> Iterator[World]:
    """A source and an open sync, on SQLite."""
    made = World(sqlite_url, clock, Ledger.open(sqlite_url, clock=clock, monotonic=clock.steady))
    yield made
    made.ledger.close()
