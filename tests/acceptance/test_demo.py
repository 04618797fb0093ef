"""The demo, as a newcomer runs it: from nothing to searches, and a second time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.person import Person, Said

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Person:
    """A person who has nothing yet; the demo's state goes where they say."""
    return Person(tmp_path_factory.mktemp("demo") / "state")


@pytest.fixture(scope="module")
def first(newcomer: Person) -> Iterator[Said]:
    """What the first demo says."""
    yield newcomer("demo", "--exit", "--home", newcomer.home)
    newcomer("down")


@pytest.fixture(scope="module")
def second(newcomer: Person, first: Said) -> Said:
    """What the same demo says when everything is in the library already."""
    return newcomer("demo", "--exit", "--home", newcomer.home)


def test_the_demo_ends_well(first: Said) -> None:
    first.ok()


def test_it_shows_what_came_in_from_both_sources(first: Said) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in first.out.splitlines() if line.startswith(("vault", "proj"))}
    assert "SOURCE" in first.out
    assert int(rows["vault"][0]) >= 80
    assert int(rows["project"][0]) >= 100


def test_it_shows_the_quarantine_with_its_reasons(first: Said) -> None:
    lines = [line for line in first.out.splitlines() if "scan-1987-flood-marks.pdf" in line]
    assert lines
    assert all("parse_error" in line for line in lines)


def test_it_shows_searches_with_their_hits(first: Said) -> None:
    blocks = first.out.split("\ncatchment search ")[1:]
    places = [block.splitlines()[2] for block in blocks]
    expected = ("Notes on swarming.md", "minutes-general-meeting.docx", "Quote for the pump.eml", "Daily/", "味噌汁.md")
    assert [name for name, place in zip(expected, places, strict=True) if name not in place] == []


def test_it_shows_where_the_ui_is_and_how_to_get_in(first: Said, newcomer: Person) -> None:
    assert "Prefect UI: http://127.0.0.1:" in first.out
    assert str(newcomer.home / "ui-login") in first.out


def test_it_says_how_far_it_is(first: Said) -> None:
    told = [line for line in first.out.splitlines() if line.startswith(("vault: ", "project: ", "→ "))]
    assert len(told) >= 4


def test_a_second_demo_finds_nothing_to_do_and_says_so(second: Said) -> None:
    second.ok()
    assert "→ vault: nothing to do" in second.out
    assert "→ project: nothing to do" in second.out


def test_a_second_demo_shows_the_same_library(first: Said, second: Said) -> None:
    first_hits, second_hits = (
        said.out[said.out.index("catchment search") : said.out.index("Prefect UI")] for said in (first, second)
    )
    assert first_hits == second_hits


def test_nothing_is_left_running(second: Said, newcomer: Person) -> None:
    assert newcomer.left() == []


def test_a_folder_of_the_persons_own_is_taken_instead(second: Said, newcomer: Person, tmp_path: Path) -> None:
    # Made up here: the demo has read this file as well.
    word = f"w{uuid4().hex}"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bees.md").write_text(f"# Bees\n\nThe {word} stays in.\n")
    said = newcomer("demo", "--exit", "--home", newcomer.home, "--source", tmp_path / "mine").ok()
    assert re.search(r"→ mine-[0-9a-f]{4}: 1 added or updated", said.out)
    assert "Quarantined items" in second.out
    assert "Quarantined items" not in said.out, "that is of the example"
    assert [hit["item"] for hit in newcomer.hits(word)] == ["bees.md"]
    assert newcomer.left() == []


def test_a_folder_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    person = Person(tmp_path / "state")
    person("demo", "--exit", "--home", person.home, "--source", tmp_path / "nothing").refused(2, "not a folder")
    assert not person.home.exists()
