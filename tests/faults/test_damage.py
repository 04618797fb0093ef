"""Corrupted pages and files are detected, reported with a remedy, and never replaced by empty ones."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.disk import Fault
from tests.faults.workshop import Workshop, texts_of

pytestmark = [pytest.mark.faults, pytest.mark.long]

_PAGE = 8192
_PAGES = 8
_HEADER = 100
_RESTORE = "catchment restore"


def _noise(page: bytes) -> bytes:
    return random.randbytes(len(page))


def _zeros(page: bytes) -> bytes:
    return bytes(len(page))


def _torn(page: bytes) -> bytes:
    """Tear a page: random bytes replace its second half."""
    return page[: len(page) // 2] + random.randbytes(len(page) // 2)


@pytest.mark.parametrize("damage", [_noise, _zeros, _torn])
def test_damaged_page_is_reported_and_a_backup_restores_all_data(
    shop: Workshop, states: dict[str, Path], damage: Callable[[bytes], bytes], times: int
) -> None:
    shop.begin_from(states["backed up"])
    shop.well("vacuum")  # every page is in use
    (shop.place / "kept" / "copy.db").unlink()
    shop.well("back_up")
    good = shop.texts()
    sound = shop.home / "ledger.db"
    data = sound.read_bytes()
    pages = range(len(data) // _PAGE)
    for page in sorted(random.sample(pages, min(len(pages), _PAGES * times))):
        at = page * _PAGE
        broken = data[:at] + damage(data[at : at + _PAGE]) + data[at + _PAGE :]
        sound.write_bytes(broken)
        checked, found, restored, looked = shop.do(
            ["ledger", "check", "--deep"],
            ["search", "paper"],
            ["restore", str(shop.place / "kept" / "copy.db")],
            "look",
        )
        about = (page, checked, found)
        assert "unexpected" not in checked.done["err"] + found.done["err"], about
        if checked.done["code"] != 0:
            assert checked.done["code"] == 1, about
        else:
            # A page that is consistent in itself is compared with the others: the data must be unchanged.
            assert damage is _torn, about
        assert found.done["code"] in (0, 1), about
        assert restored.done["code"] == 0, (about, restored)
        assert texts_of(looked) == good, about
        (aside,) = shop.home.glob("replaced-*")
        # A consistent first page claims that the ledger has no log.
        assert (aside / "ledger.db").read_bytes()[_HEADER:] == broken[_HEADER:], about
        shutil.rmtree(aside)


def test_ledger_truncated_anywhere_is_reported_and_unchanged(shop: Workshop, states: dict[str, Path]) -> None:
    shop.begin_from(states["backed up"])
    shop.well("vacuum")  # every page is in use
    file = shop.home / "ledger.db"
    data = file.read_bytes()
    for size in (len(data) - _PAGE, len(data) // 2, _PAGE + 100, 50):
        file.write_bytes(data[:size])
        checked, status = shop.do(["ledger", "check", "--deep"], ["status"])
        assert checked.done["code"] == 1, (size, checked)
        assert _RESTORE in checked.done["err"], (size, checked)
        assert status.done["code"] in (0, 1), (size, status)
        assert file.read_bytes() == data[:size], size


@pytest.mark.parametrize("word", ["ledger.db", "sources.yaml"])
def test_unreadable_file_is_reported_in_one_line_with_the_remedy(
    shop: Workshop, states: dict[str, Path], word: str
) -> None:
    shop.begin_from(states["backed up"])
    (shop.home / "sources.yaml").write_text("pull: []\n\ndeployments: []\n")
    command = ["status"] if word == "ledger.db" else ["config", "validate"]
    said = shop.command(*command, fault=Fault.unreadable_at(word))
    assert said.code in (2, 10), said
    assert len(said.err.splitlines()) == 1, said
    assert "disk" in said.err, said


def test_damaged_cache_is_discarded_and_reported_by_the_sync(shop: Workshop, states: dict[str, Path]) -> None:
    shop.begin_from(states["old"])
    for rest in shop.home.glob("cache.db-*"):
        rest.unlink()
    (shop.home / "cache.db").write_bytes(b"this is no cache at all" * 500)
    assert shop.well("sync")["caches_thrown_away"] == 1
    assert set(shop.texts()) > {"new.md"}
