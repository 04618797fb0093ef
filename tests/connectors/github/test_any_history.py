"""Random git histories: a sequence of syncs gives the same result as one fresh sync."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.git_host import hosting
from tests.connectors.github.repository import Repository

_NAME = "ada/project"
_STEPS = 20


def _text(lot: random.Random) -> str:
    """Return one of few texts, so that equal contents occur; some are empty."""
    return "" if lot.random() < 0.1 else f"# {lot.randrange(12)}\n" * 15 + f"{lot.randrange(3)}\n"


def _step(work: Repository, lot: random.Random) -> None:
    """Change some files and commit; sometimes amend the previous commit."""
    for _ in range(lot.randrange(1, 5)):
        files = sorted(path for path in work.path.rglob("*.md"))
        name = f"{lot.choice('abc')}/{lot.choice('xyz')}{lot.randrange(4)}.md"
        match lot.choice(["write", "write", "edit", "move", "move and edit", "delete", "attributes"]):
            case "write":
                work.put(name, _text(lot))
            case "edit" if files:
                lot.choice(files).write_text(_text(lot))
            case "delete" if files:
                lot.choice(files).unlink()
            case "attributes":
                work.put(f"{lot.choice('abc')}/.gitattributes", f"{lot.choice('xyz')}* linguist-vendored\n")
            case "move" | "move and edit" as what if files and not (work.path / name).exists():
                (work.path / name).parent.mkdir(exist_ok=True)
                moved = lot.choice(files).rename(work.path / name)
                if what != "move":
                    moved.write_text(moved.read_text() + "and more\n")
    work.commit(*(["--amend"] if lot.random() < 0.2 else []))
    if lot.random() < 0.1:
        work.git("reflog", "expire", "--expire=now", "--all")
        work.git("gc", "--quiet", "--prune=now")


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "clone"])
@pytest.mark.parametrize("seed", [pytest.param(6, marks=pytest.mark.full), pytest.param(7, marks=pytest.mark.soak)])
def test_random_git_histories_sync_like_a_fresh_listing(root: Path, seed: int, copied: bool) -> None:
    lot = random.Random(seed)
    work = Repository.made(root / "project")
    work.commit()
    ledger = MemoryLedger()
    with hosting(root / "host") as host:
        host.publish(_NAME, work)
        remote = {"repositories": (_NAME,), "address": host.address, "include": ("code",)}
        settings = GitHubSettings.model_validate(remote if copied else {"clone": work.path})
        for _ in range(_STEPS):
            _step(work, lot)
            github = GitHub(settings)
            github.folder = root / "home"
            if lot.random() < 0.3:
                ledger.sync(github, cut=lot.randrange(8))
            if lot.random() < 0.7:
                assert ledger.sync(github).failed == {}
            github.close()
        github = GitHub(settings)
        github.folder = root / "home"
        ledger.sync(github)
        fresh = MemoryLedger()
        fresh.sync(github)
        again = ledger.sync(github, deep=True)
        github.close()
    assert ledger.documents() == fresh.documents()
    assert {row.item.locator: row.skipped for row in ledger.present().values()} == {
        row.item.locator: row.skipped for row in fresh.present().values()
    }
    assert ledger.marks == fresh.marks
    assert again.item_changes == []
