"""`search`, `show`, `related` and `status` over a real ledger."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.console.conftest import Cli


def test_search_finds_documents_in_the_shape_that_scripts_rely_on(filled: Path, cli: Cli) -> None:
    hit, *others = cli("search", "swarm", "--json").json
    assert others == []
    assert list(hit) == [
        "document",
        "title",
        "source",
        "item",
        "snippet",
        "score",
        "places",
        "conversation",
        "alike",
        "media_type",
        "author",
        "moment",
        "url",
        "number",
        "state",
        "file",
        "symbol",
        "is_recognized",
        "lexical_rank",
        "lexical_score",
        "semantic_rank",
        "cosine",
        "marks",
    ]
    assert (hit["title"], hit["source"], hit["item"]) == ("Swarm", "notes", "Bees/Swarm.md")
    assert "warm" in hit["snippet"]
    assert isinstance(hit["score"], float)


def test_search_shows_a_person_where_and_how_it_was_found(filled: Path, cli: Cli) -> None:
    out = cli("search", "swarm").out
    assert out.splitlines()[0].startswith("Swarm  ")
    assert "notes: Bees/Swarm.md" in out


@pytest.mark.parametrize("words", ['"unclosed', "a AND OR NOT", "*", "(((", "col:x", "'; DROP TABLE jobs", "\x00", "^"])
def test_no_search_is_a_syntax_error(filled: Path, cli: Cli, words: str) -> None:
    response = cli("search", "--json", "--", words)
    assert response.code == 0
    assert isinstance(response.json, list)


def test_a_search_can_leave_words_out_and_be_kept_to_a_source(filled: Path, cli: Cli) -> None:
    assert [hit["title"] for hit in cli("search", "--json", "--", "hive", "-winter").json] == ["Swarm"]
    assert len(cli("search", "hive", "--source", "notes", "--limit", "1", "--json").json) == 1
    assert cli("search", "hive", "--source", "note").code == 4


def test_nothing_found_is_said_and_is_no_error(filled: Path, cli: Cli) -> None:
    response = cli("search", "zebra")
    assert (response.code, response.out, response.err) == (0, "", "nothing found\n")


def test_what_a_note_says_cannot_steer_the_terminal(filled: Path, cli: Cli) -> None:
    for arguments in (
        ("search", "shed"),
        ("search", "shed", "--json"),
        ("show", "Hive.md"),
        ("show", "Hive.md", "--json"),
    ):
        response = cli(*arguments)
        assert response.code == 0
        assert "red" in response.out
        assert not {"\x1b", "\x07"} & set(response.out)


def test_show_tells_all_that_is_known_of_a_document(filled: Path, cli: Cli) -> None:
    by_item = cli("show", "Bees/Swarm.md", "--json").json
    assert cli("show", str(by_item["document"]), "--json").json == by_item
    assert by_item["text"].startswith("A swarm left the hive")
    assert by_item["links"] == [{"kind": "wikilink", "target": "Hive", "anchor": "", "label": ""}]
    assert by_item["properties"] == {"mood": "calm"}
    assert by_item["modified"] == "2026-05-01T00:00:00Z"
    out = cli("show", "Bees/Swarm.md").out
    assert "bees, spring" in out
    assert "mood: calm" in out
    assert "notes: Bees/Swarm.md" in out
    assert out.endswith("A swarm left the hive in May, see [[Hive]]. #bees #spring\n")


def test_showing_what_is_not_there_exits_with_4(filled: Path, cli: Cli) -> None:
    response = cli("show", "Nowhere.md")
    assert response.code == 4
    assert response.err.count("\n") == 1


def test_related_follows_links_both_ways(filled: Path, cli: Cli) -> None:
    assert [(r["relation"], r["item"]) for r in cli("related", "Bees/Swarm.md", "--json").json] == [
        ("links to", "Hive.md")
    ]
    assert [(r["relation"], r["item"]) for r in cli("related", "Hive.md", "--json").json] == [
        ("linked from", "Bees/Swarm.md")
    ]
    assert "Bees/Swarm.md" in cli("related", "Hive.md").out
    assert cli("related", "Hive.md", "--json").json[0]["source"] == "notes"


def test_a_vault_is_reported_with_what_is_broken_in_it(filled: Path, cli: Cli) -> None:
    response = cli("vault", "report", "notes", "--json")
    assert response.code == 0, "an orphan breaks nothing"
    assert (response.json["notes"], response.json["files"], response.json["backlinks"]) == (2, 6, 1)
    assert cli("vault", "report", "notes", "--markdown").out.startswith("# Vault quality\n")
    assert "2 notes (6 files in total), 1 link, 1 between notes" in cli("vault", "report", "notes").out


def test_only_a_vault_is_reported_as_one(filled: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("add", "local_files", str(tmp_path), "--name", "papers").code == 0
    response = cli("vault", "report", "papers")
    assert (response.code, "not an Obsidian vault; name an obsidian source" in response.err) == (2, True)


def test_status_has_the_shape_that_scripts_rely_on(filled: Path, cli: Cli) -> None:
    status = cli("status", "--json").json
    assert status["server"] == {"running": False, "answers": False, "url": None}
    [source] = status["sources"]
    assert (source["name"], source["kind"], source["state"], source["documents"]) == ("notes", "obsidian", "active", 2)
    counted = {state: number for state, number in source["jobs"].items() if number}
    assert counted == {"succeeded": 2, "quarantined": 1, "retrying": 1, "skipped": 1, "pending": 1}
    assert source["last_sync"]["outcome"] == "completed"


def test_status_tells_a_person_what_waits_for_a_decision(filled: Path, cli: Cli) -> None:
    out = cli("status").out
    assert "Catchment is not running; start it with `catchment up --detach`" in out
    assert "notes: 1 in quarantine; see `catchment quarantine list --source notes`" in out


def test_status_before_anything_was_added_says_how_to_begin(cli: Cli, state: Path) -> None:
    response = cli("status")
    assert response.code == 0
    assert "catchment add obsidian" in response.out
    server = {"running": False, "answers": False, "url": None}
    found = cli("status", "--json").json
    assert found["server"] == server
    assert not any(found[name] for name in found.keys() - {"server", "sentence"})
    assert not state.exists(), "a question makes nothing"


@pytest.mark.parametrize("arguments", [("search", "x"), ("jobs", "list"), ("quarantine", "list"), ("ledger", "check")])
def test_before_anything_was_added_a_question_is_answered_with_4(cli: Cli, state: Path, arguments: list[str]) -> None:
    response = cli(*arguments)
    assert response.code == 4
    assert response.err.count("\n") == 1
    assert not state.exists()


def test_a_damaged_ledger_is_reported_and_left_as_it_is(filled: Path, cli: Cli) -> None:
    file = filled / "ledger.db"
    for side in ("ledger.db-wal", "ledger.db-shm"):
        (filled / side).unlink(missing_ok=True)
    damaged = b"this is no database" + bytes(8_192)
    file.write_bytes(damaged)
    for arguments in (("status",), ("search", "hive"), ("sources", "pause", "notes")):
        response = cli(*arguments)
        assert response.code == 1
        assert response.err.count("\n") == 1
        assert file.read_bytes() == damaged


def test_a_ledger_check_names_what_does_not_hold(filled: Path, cli: Cli) -> None:
    assert cli("ledger", "check").out == "all invariants hold\n"
    assert cli("ledger", "check", "--deep", "--json").json == {"holds": True, "broken": []}
    with sqlite3.connect(filled / "ledger.db") as database:
        database.execute("DROP TRIGGER history_no_delete")
        database.execute("DELETE FROM history WHERE id = 2")
    database.close()
    response = cli("ledger", "check")
    assert (response.code, response.out) == (1, "")
    assert response.err.startswith("invariant violated: ")


def test_quick_commands_load_neither_prefect_nor_pydantic(filled: Path, process: Cli) -> None:
    heavy = {"prefect", "pydantic", "rich", "httpx", "alembic", "yaml", "catchment.sync.source_sync", "xberg"}
    script = (
        "import sys\n"
        "from console.main import main\n"
        "code = main(['status'])\n"
        f"print('loaded:', sorted({heavy!r} & set(sys.modules)))\n"
        "sys.exit(code)\n"
    )
    response = process(script=script)
    assert response.code == 0
    assert response.out.splitlines()[-1] == "loaded: []"


SHOWING = (
    *("status", "search hive", "show Hive.md", "why Hive.md", "history Hive.md", "hosts", "health", "doctor", "model"),
    *(
        "sources list",
        "sources show notes",
        "syncs list",
        "jobs list",
        "quarantine list",
        "queue stats",
        "incidents list",
    ),
    *("consent list", "throttle show", "deletions list", "sinks list", "backup --list", "audit list", "config show"),
)
ACTING = (
    *("sources pause notes", "sources resume notes", "throttle set notes --per-hour 5", "throttle clear notes"),
    *("consent give notes", "model off", "audit key rotate", "quarantine retry --all", "backup"),
    *("sinks add jsonl {home}/copy --name copy", "sinks pause copy", "sinks remove copy", "ledger adopt"),
)


@pytest.mark.parametrize("commands", [SHOWING, ACTING], ids=["showing", "acting"])
def test_commands_load_no_prefect(filled: Path, process: Cli, commands: tuple[str, ...]) -> None:
    lines = [command.format(home=filled.parent) for command in commands]
    script = (
        "import sys\n"
        "from console.main import main\n"
        f"for line in {lines!r}:\n"
        "    code = main(line.split())\n"
        "    if code not in (0, 1) or 'prefect' in sys.modules:\n"
        "        sys.exit(f'{line}: exit code {code}')\n"
    )
    response = process(script=script)
    assert response.code == 0, response.err


def test_the_help_loads_no_library_at_all(process: Cli) -> None:
    script = (
        "import sys\n"
        "from console.main import main\n"
        "main(['--help'])\n"
        "print('loaded:', sorted({'prefect', 'pydantic', 'sqlalchemy', 'rich', 'yaml', 'httpx'} & set(sys.modules)))\n"
    )
    assert process(script=script).out.splitlines()[-1] == "loaded: []"
