"""A workshop with a faulty disk, and the states from which its tasks start."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.workshop import Workshop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with closing(Workshop(tmp_path_factory.mktemp("disk"))) as made:
        yield made


@pytest.fixture(scope="module")
def states(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The workshop initially, after a sync of the first folder contents, and now, with a backup of the earlier state."""
    folder = tmp_path_factory.mktemp("states")
    shop.papers.mkdir()
    (shop.place / "kept").mkdir(parents=True)
    for n in range(12):
        (shop.papers / f"{n}.md").write_text(_paper(n))
    shop.save(folder / "new")
    shop.well("sync")
    shop.save(folder / "old")
    _change(shop.papers)
    shop.well("back_up")
    shop.well("sync")
    shop.save(folder / "backed up")
    return {path.name: path for path in folder.iterdir()}


def _paper(n: int, word: str = "first") -> str:
    return f"# Paper {n}\n\n" + f"The {word} paper number {n}. " * 30


def _change(papers: Path) -> None:
    for n in range(3):
        (papers / f"{n}.md").write_text(_paper(n, "second"))
    (papers / "3.md").unlink()
    (papers / "4.md").rename(papers / "moved.md")
    (papers / "new.md").write_text(_paper(99))


@pytest.fixture(autouse=True)
def same_chance(request: pytest.FixtureRequest, times: int) -> None:
    """Seed ordinary runs identically; longer runs draw new numbers."""
    if times == 1:
        random.seed(request.node.name)
