"""Record the tables of a new database of Prefect: `python -m tests.golden.prefect_tables`, after Prefect's version changed."""

from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from catchment.runtime.home import Home
from deployments.server import prefect_database
from deployments.server.environment import child_environment

_MAKE = """
import asyncio
from prefect.plugins import load_prefect_collections
from prefect.server.database import provide_database_interface
from prefect.server.models.block_registration import run_block_auto_registration

async def main():
    database = provide_database_interface()
    await database.create_db()
    async with await database.session() as session:
        await run_block_auto_registration(session)

load_prefect_collections()
asyncio.run(main())
"""


def migrated(home: Home) -> Path:
    """Have Prefect create its database in a new home, as its server does at the first start. Takes 9 s. Returns the file."""
    environment = child_environment(home.make(), port=1, auth="a:b")
    subprocess.run([sys.executable, "-c", _MAKE], env=environment, check=True)
    prefect_database.note_block_types(home)
    return home.prefect / "prefect.db"


def _record() -> None:
    with TemporaryDirectory() as folder, closing(sqlite3.connect(migrated(Home(Path(folder) / "home")))) as database:
        (note,) = database.execute("PRAGMA user_version").fetchone()
        # Not with its own transaction.
        statements = [line for line in database.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
    text = "\n".join([f"PRAGMA user_version = {note};", *statements])
    prefect_database._RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    _record()
