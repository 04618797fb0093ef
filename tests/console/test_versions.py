"""`history`, `diff` and `show --as-of`, and the same on the page and below /api/v1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from tests.console.conftest import Cli
from tests.ledger.test_undo import undo
from tests.ledger.test_versions import bees
from tests.ledger.world import Clock, World
from tests.web.conftest import served, signed_in
from tests.web.test_pages import shown


@pytest.fixture
def world(state: Path) -> Iterator[World]:
    """A note that was changed with hostile text, moved and deleted."""
    url, clock = Home(state).make().database_url, Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        made = World(url, clock, ledger)
        bees(made, "v1", "# Bees", "Treat them in winter.")
        bees(made, "v2", "# Bees", "Treat them in <b>December</b>.\x1b[31m", "Twice.")
        bees(made, "v2", "# Bees", path="Hive/Bees.md")
        bees(made, "v3", path="Hive/Bees.md")
        yield made


def test_history_lists_versions_with_times_syncs_and_changes(cli: Cli, world: World) -> None:
    said = cli("history", "Bees.md")
    assert said.code == 0
    assert [line.rsplit("  ", 1)[-1] for line in said.out.splitlines()[2:]] == [
        "moved from Bees.md",
        "+2 -1 lines, tags",
        "added",
    ]
    found = cli("history", "1", "--json").json
    assert [one["sync"] for one in found["versions"]] == [4, 3, 2]
    assert found["versions"][0]["until"] is None and found["expired"] is None
    assert cli("history", "1", "--limit", "1").err.startswith("older versions are not listed; raise --limit 1")


def test_narrow_terminal_shows_times_whole(cli: Cli, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = cli("history", "1").out
    assert "2026-11-20 " in said and "…" not in said


def test_diff_and_show_give_a_version_of_a_time(cli: Cli, world: World) -> None:
    diff = cli("diff", "1", "--since", "2026-11-20T13:30:00+00:00")
    assert diff.out.splitlines()[2:] == [
        "    tags: Übung/v1 → Übung/v2",
        "@@ -1,2 +1,3 @@",
        " # Bees",
        "-Treat them in winter.",
        "+Treat them in <b>December</b>. ",
        "+Twice.",
    ]
    assert "Treat them in winter." in cli("show", "1", "--as-of", "2026-11-20T13:30:00+00:00").out
    shown = cli("show", "Bees.md", "--as-of", "2026-11-20T13:30:00Z", "--json").json
    assert (shown["text"], shown["sync"], shown["item"]) == ("# Bees\nTreat them in winter.", 2, "Bees.md")
    early = cli("show", "1", "--as-of", "2020-01-01")
    assert (early.code, early.err.partition(" at ")[0]) == (4, "catchment: Bees.md: not in the library")
    assert cli("diff", "1", "--since", "yesterday").code == 2
    assert cli("history", "Wasps.md").code == 4


def test_page_shows_versions_one_of_them_and_what_changed(world: World, state: Path) -> None:
    with served(Home(state)) as port, signed_in(Home(state), port) as client:
        listed = shown(client, "/documents/1/versions")
        assert "moved from Bees.md" in listed and "/documents/1/diff?until=" in listed
        assert "All versions and changes" in shown(client, "/documents/1")
        old = shown(client, "/documents/1?as_of=2026-11-20T13:30:00Z")
        assert "Treat them in winter." in old and "What changed since" in old
        diff = shown(client, "/documents/1/diff?since=2026-11-20T13:30:00Z")
        assert "<del>" in diff and "&lt;b&gt;" in diff and "<b>December</b>" not in diff
        assert client.get("/documents/1?as_of=soon").status_code == 400
        for sync in (4, 3, 2):
            undo(world, sync)
        assert "deleted; open /documents/1/versions" in client.get("/documents/1").text
        assert "It was deleted" in shown(client, "/documents/1/versions")
        assert "Treat them in winter." in shown(client, "/documents/1?as_of=2026-11-20T13:30:00Z")


def test_setting_says_how_long_versions_are_kept(cli: Cli, filled: Path) -> None:
    assert cli("sources", "set", "notes", "keep_days=365").code == 0
    with closing(Ledger.inspect(Home(filled))) as ledger:
        assert ledger.sources.get("notes").keep_days == 365
    refused = cli("sources", "set", "notes", "keep_days=0")
    assert (refused.code, refused.err) == (2, "catchment: keep_days: must be at least 1\n")
