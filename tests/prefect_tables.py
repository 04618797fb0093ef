"""Prefect's database as it is after the first start of a home, created once for all tests.

The tables take 7 s of processor time, the block types in them 2 s.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from catchment.runtime.home import Home
from deployments.server.environment import child_environment
from deployments.server.prefect_database import note_block_types, prepare

_CACHE = Path(__file__).parents[1] / ".pytest_cache" / "prefect"
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


def lay_tables(home: Path) -> None:
    """Copy the database into a home that has never been started. Other homes are left unchanged."""
    new = Home(home).make()
    file = new.prefect / "prefect.db"
    if not file.exists():
        shutil.copyfile(_made(), file)
        file.chmod(0o600)


def _made() -> Path:
    """Return the database to copy, which is created if missing."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    made = _CACHE / f"{version('prefect')}.db"
    with (_CACHE / "lock").open("w") as lock:
        # Several pytest processes start at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            home = Home(_CACHE / "home").make()
            prepare(home)
            environment = child_environment(home, port=1, auth="a:b")
            subprocess.run([sys.executable, "-c", _MAKE], env=environment, check=True)
            note_block_types(home)
            (home.prefect / "prefect.db").replace(made)
            shutil.rmtree(home.path)
    return made
