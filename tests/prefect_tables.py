"""What Prefect makes in the first start of a home, made once for all tests: its tables take 7 s of a processor.

They have the types of blocks in them too, as after a start: 2 s.
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
    """Give a home that has never been started what its first start would make; nothing happens to another one."""
    new = Home(home).make()
    file = new.prefect / "prefect.db"
    if not file.exists():
        shutil.copyfile(_made(), file)
        file.chmod(0o600)


def _made() -> Path:
    """The file that is copied."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    made = _CACHE / f"{version('prefect')}.db"
    with (_CACHE / "lock").open("w") as lock:
        # Several processes of pytest begin at once.
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
