"""What the fork server does once so that its runs need not: nothing of it is left but what it is done for."""

from __future__ import annotations

import tempfile
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from catchment.ledger import Ledger
from catchment.ledger.db import database
from deployments.warm.rehearsal import rehearse


def test_a_rehearsal_leaves_no_thread_no_process_no_handle_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rehearse()  # What is imported only now may stay open.
    threads, children = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    handles = psutil.Process().num_fds()

    rehearse()

    assert set(threading.enumerate()) <= threads
    assert set(psutil.Process().children(recursive=True)) <= children
    assert psutil.Process().num_fds() <= handles
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_leaves_the_ledger_of_the_home_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", f"sqlite:///{tmp_path / 'mine.db'}")

    rehearse()

    assert not (tmp_path / "mine.db").exists()


def test_what_one_ledger_has_put_into_words_another_finds(tmp_path: Path) -> None:
    database._statements.clear()
    put_into_words = []
    for name in ("one", "two"):
        with closing(Ledger.open(f"sqlite:///{tmp_path / name}.db")) as ledger:
            ledger.sources.all()
        put_into_words.append(len(database._statements))

    assert put_into_words[0] == put_into_words[1] > 0
