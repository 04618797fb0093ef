"""Every test of the ledger's behaviour runs on SQLite and on PostgreSQL, each test on a fresh ledger."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from catchment.ledger import Ledger
from catchment.ledger.schema import metadata
from tests.ledger.world import Clock, World

_BINARIES = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with nothing in it, to be copied."""
    file = tmp_path_factory.mktemp("template") / "ledger.db"
    Ledger.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A private PostgreSQL server on a socket of its own, with one ledger; its URL."""
    if not _BINARIES.is_dir():
        pytest.skip("PostgreSQL 15 is not installed")
    folder = tmp_path_factory.mktemp("pg")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    data, user = folder / "data", "postgres" if os.geteuid() == 0 else os.environ.get("USER", "postgres")
    data.mkdir()
    if os.geteuid() == 0:
        shutil.chown(folder, user)
        shutil.chown(data, user)
    as_user: list[str] = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
    settings = f"-c listen_addresses='' -k {folder} -c fsync=off -c max_connections=30"

    def control(*command: str) -> None:
        subprocess.run([*as_user, *command], check=True, capture_output=True, cwd=folder)

    control(
        str(_BINARIES / "initdb"),
        "-D",
        str(data),
        "-A",
        "trust",
        "-U",
        "postgres",
        "--no-sync",
        "-E",
        "UTF8",
        "--locale=C",
    )
    control(str(_BINARIES / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", settings, "start")
    try:
        url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        Ledger.open(url).close()
        yield url
    finally:
        control(str(_BINARIES / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")


def empty(url: str) -> None:
    """Bring a PostgreSQL ledger back to how it was made; the guard of the history is put aside for that."""
    kept = {"revision", "chain", "counters"}
    tables = ", ".join([*(name for name in metadata.tables if name not in kept), "chunk_index", "document_index"])
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text(f"TRUNCATE {tables}"))
        connection.execute(text("UPDATE counters SET value = 0"))
        connection.execute(text("UPDATE chain SET length = 0, hash = ''"))
    engine.dispose()


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    file = tmp_path / "ledger.db"
    shutil.copy2(sqlite_template, file)
    return f"sqlite:///{file}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty ledger, on either database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url")
        return
    address: str = request.getfixturevalue("postgres")
    empty(address)
    yield address


@pytest.fixture
def world(url: str, clock: Clock) -> Iterator[World]:
    """A source and an open sync, on either database; every invariant must hold at the end."""
    made = World(url, clock, Ledger.open(url, clock=clock))
    yield made
    assert made.ledger.check() == []
    made.ledger.close()


@pytest.fixture
def sqlite_world(sqlite_url: str, clock: Clock) -> Iterator[World]:
    """A source and an open sync, on SQLite."""
    made = World(sqlite_url, clock, Ledger.open(sqlite_url, clock=clock))
    yield made
    made.ledger.close()
