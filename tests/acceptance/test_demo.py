"""The demo for a new user: run from an empty state, then run again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.person import Person, Said

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Person:
    """A user without any state; the state of the demo has a separate folder."""
    return Person(tmp_path_factory.mktemp("demo") / "state")


@pytest.fixture(scope="module")
def first(newcomer: Person) -> Iterator[Said]:
    """The output of the first demo."""
    yield newcomer("demo", "--exit", "--home", newcomer.home)
    newcomer("down")


@pytest.fixture(scope="module")
def second(newcomer: Person, first: Said) -> Said:
    """The output of the second demo, when all items are in the library already."""
    return newcomer("demo", "--exit", "--home", newcomer.home)


def test_demo_succeeds(first: Said) -> None:
    first.ok()


def test_demo_shows_the_items_of_both_sources(first: Said) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in first.out.splitlines() if line.startswith(("vault", "proj"))}
    assert "SOURCE" in first.out
    assert int(rows["vault"][0]) >= 80
    assert int(rows["project"][0]) >= 100


def test_demo_shows_the_quarantine_with_its_reasons(first: Said) -> None:
    lines = [line for line in first.out.splitlines() if "scan-1987-flood-marks.pdf" in line]
    assert lines
    assert all("parse_error" in line for line in lines)


def test_demo_shows_searches_with_their_hits(first: Said) -> None:
    blocks = first.out.split("\ncatchment search ")[1:]
    places = [block.splitlines()[2] for block in blocks]
    expected = ["Notes on swarming.md", "Quote for the pump.eml", "Statutes.md", "味噌汁.md"]
    if "Pictures: " not in first.out:
        expected.append("letter-1974-red-key.png")
    elif shutil.which("tesseract"):  # too busy to read it in half a minute
        assert "catchment search padlock" in first.out
    else:
        assert "apt install tesseract-ocr" in first.out
    assert [name for name, place in zip(expected, places, strict=True) if name not in place] == []


def test_demo_shows_related_notes(first: Said) -> None:
    lines = first.out.partition("\ncatchment related ")[2].splitlines()
    assert any(line.startswith("linked from") for line in lines)
    assert any(line.startswith("similar") and "Honey cake" in line for line in lines)


def test_demo_shows_the_ui_address_and_the_automation(first: Said) -> None:
    assert re.search(r"Page: http://127.0.0.1:\d+/signin\?key=", first.out)
    assert re.search(
        r"Prefect UI: http://127.0.0.1:\d+/dashboard \(the link of the page signs in to it, too\)", first.out
    )
    assert re.search(r"/automations \(saving a file of vault starts a sync\)", first.out)


def test_demo_shows_its_progress(first: Said) -> None:
    assert re.search("^vault: running$", first.err, re.MULTILINE)
    assert re.search("^project: .* added or updated", first.out, re.MULTILINE)


def test_second_demo_reports_no_changes(second: Said) -> None:
    second.ok()
    assert "vault: nothing to do" in second.out
    assert "project: nothing to do" in second.out


def test_a_second_demo_shows_the_same_library(first: Said, second: Said) -> None:
    # The searches may differ: the second demo does not wait for the embeddings of the project.
    first_entries, second_entries = (
        said.out[said.out.index("Quarantined items") : said.out.rindex("Page: ")] for said in (first, second)
    )
    assert first_entries == second_entries


def test_demo_leaves_no_process_running(second: Said, newcomer: Person) -> None:
    assert newcomer.left() == []


def test_demo_accepts_a_folder_of_the_user(second: Said, newcomer: Person, tmp_path: Path) -> None:
    # Generated at run time, because the demo also reads this test file.
    word = f"w{uuid4().hex}"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bees.md").write_text(f"# Bees\n\nThe {word} stays in.\n")
    said = newcomer("demo", "--exit", "--home", newcomer.home, "--source", tmp_path / "mine").ok()
    # The watcher may have synced the new source before.
    assert re.search(r"^mine-[0-9a-f]{4}: (1 added or updated|nothing to do)", said.out, re.MULTILINE), said.out
    assert "Quarantined items" in second.out
    assert "Quarantined items" not in said.out, "that is of the example"
    assert [hit["item"] for hit in newcomer.hits(word)] == ["bees.md"]
    assert newcomer.left() == []


def test_missing_demo_folder_is_reported_at_once(tmp_path: Path) -> None:
    person = Person(tmp_path / "state")
    person("demo", "--exit", "--home", person.home, "--source", tmp_path / "nothing").refused(2, "not a folder")
    assert not person.home.exists()
