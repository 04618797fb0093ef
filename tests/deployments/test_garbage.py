"""Garbage collection in the server: the event loop never waits for an SQLite connection."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

_WAITS = """
import asyncio, gc, sqlite3, sys
from concurrent.futures import ThreadPoolExecutor

from deployments.server.app import collect_aside


class Left:
    pass


def leave(connection):
    # As a request leaves it that was given up: a cursor that was not read to its end, in a cycle.
    left = Left()
    left.cursor = connection.execute("VALUES (1), (2), (3)")
    left.itself = left


async def main(file):
    # Where the collection blocks the loop, the wait for the lock ends at its limit, and never with success.
    seconds = 60 if sys.argv[2] == "aside" else 3
    writing, waiting = (
        sqlite3.connect(file, timeout=seconds, isolation_level=None, check_same_thread=False) for _ in range(2)
    )
    writing.execute("BEGIN IMMEDIATE")
    gc.disable()
    leave(waiting)
    with ThreadPoolExecutor(1) as thread:
        turn = asyncio.get_running_loop().run_in_executor(thread, waiting.execute, "BEGIN IMMEDIATE")
        await asyncio.sleep(0.2)
        collect_aside() if sys.argv[2] == "aside" else gc.enable()
        for _ in range(10):
            await asyncio.sleep(0.1)
            made = [[] for _ in range(100_000)]
        writing.execute("COMMIT")
        await turn


asyncio.run(main(sys.argv[1]))
"""


def waits(file: Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _WAITS, file, how], capture_output=True, text=True, check=False)


@pytest.mark.full
def test_garbage_collection_does_not_block_a_transaction(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with sqlite3.connect(file) as made:
        made.execute("PRAGMA journal_mode = WAL")
    made.close()
    assert "database is locked" in waits(file, "as ever").stderr
    assert (aside := waits(file, "aside")).returncode == 0, aside.stderr
