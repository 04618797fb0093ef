"""The connector for programs, against scripts that speak the protocols."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from catchment.contracts import NothingKnown
from catchment.errors import BadInput, SourceInvalid, SourceUnavailable, Vanished
from catchment.model import Checkpoint, Root, Upsert
from connectors.contract.memory_ledger import MemoryLedger
from connectors.programs import Program
from connectors.programs.settings import ProgramSettings
from tests.connectors.programs.scripts import AIRBYTE, SINGER, calls_of, write_records, write_script, write_streams


def program(folder: Path, **settings: Any) -> Program:
    return Program(ProgramSettings.model_validate({"command": [str(folder / "tap.py")], **settings}))


def texts(ledger: MemoryLedger) -> dict[str, str]:
    return {locator: data.decode() for locator, data in ledger.documents().items()}


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def singer(tmp_path: Path) -> Path:
    write_script(tmp_path, SINGER)
    return tmp_path


@pytest.fixture
def airbyte(tmp_path: Path) -> Path:
    write_script(tmp_path, AIRBYTE)
    return tmp_path


_FRUIT = [{"id": 1, "name": "Quince", "at": "2026-01-01"}, {"id": 2, "name": "Medlar", "at": "2026-01-02"}]


def test_record_becomes_a_note_with_title_text_date_address_and_properties(tmp_path: Path) -> None:
    write_script(tmp_path, f"import json\nprint({json.dumps(json.dumps(_RECORD))})")
    made = program(tmp_path)
    [change] = [each for each in made.changes(NothingKnown()) if isinstance(each, Upsert)]
    raw = made.fetch(change.item)
    assert (raw.title, raw.name) == ("Leaking roof", f"{change.item.locator.partition('/')[2]}.md")
    assert raw.modified is not None and raw.modified.isoformat() == "2026-03-02T10:00:00+00:00"
    assert raw.metadata == {"stream": "issues", "url": "https://example.org/7"}
    head, _, text = raw.data.decode().removeprefix("---\n").partition("---\n")
    assert text.strip() == "The north side.\n\n- one"
    assert json.loads(dict(line.split(": ", 1) for line in head.splitlines())['"labels"']) == ["house", "urgent"]
    assert "body" not in head and "title" not in head


_RECORD = {
    "type": "RECORD",
    "stream": "issues",
    "record": {
        "number": 7,
        "title": "Leaking roof",
        "body": "<p>The <em>north</em> side.</p><ul><li>one</li></ul>",
        "html_url": "https://example.org/7",
        "labels": ["house", "urgent"],
        "user": {"login": "anna"},
        "created_at": "2026-03-01T10:00:00Z",
        "updated_at": "2026-03-02T10:00:00Z",
    },
}


def test_settings_decide_about_the_fields(tmp_path: Path, ledger: MemoryLedger) -> None:
    write_script(tmp_path, f"import json\nprint({json.dumps(json.dumps(_RECORD))})")
    fields = {"issues": {"key": ["number"], "title": "user.login", "texts": ["title"], "leave_out": ["labels"]}}
    report = ledger.sync(program(tmp_path, fields=fields))
    assert report.new == {"issues/7"}
    content = ledger.rows["issues/7"].content
    assert content is not None and content.title == "anna"
    assert "Leaking roof" in content.data.decode().rpartition("---")[2]
    assert "labels" not in content.data.decode()


def test_title_may_be_a_text_too_and_a_date_left_out(tmp_path: Path, ledger: MemoryLedger) -> None:
    write_script(tmp_path, f"import json\nprint({json.dumps(json.dumps(_RECORD))})")
    fields = {"issues": {"key": ["number"], "texts": ["title", "body"], "leave_out": ["updated_at"]}}
    ledger.sync(program(tmp_path, fields=fields))
    content = ledger.rows["issues/7"].content
    assert content is not None and content.title == "Leaking roof"
    assert "## Title\n\nLeaking roof" in content.data.decode()
    assert content.modified is not None and content.modified.isoformat() == "2026-03-02T10:00:00+00:00"


def test_full_stream_is_compared_and_an_incremental_one_only_adds(singer: Path, ledger: MemoryLedger) -> None:
    streams = {"full": {"key": ["id"], "records": _FRUIT}, "added": {"key": ["id"], "cursor": "at", "records": _FRUIT}}
    write_streams(singer, **streams)
    made = program(singer)
    assert ledger.sync(made).new == {"full/1", "full/2", "added/1", "added/2"}
    assert "full" not in json.dumps(ledger.marks["state"])
    write_streams(
        singer,
        full={"key": ["id"], "records": [{"id": 2, "name": "Medlar, ripe", "at": ""}]},
        added={"key": ["id"], "cursor": "at", "records": [{"id": 3, "name": "Sorb", "at": "2026-01-03"}]},
    )
    report = ledger.sync(made)
    assert (report.deleted, report.changed, report.new) == ({"full/1"}, {"full/2"}, {"added/3"})
    assert calls_of(singer)[-1]["state"] == {"bookmarks": {"added": "2026-01-02"}}
    report = ledger.sync(made, deep=True)
    assert report.deleted == set() and calls_of(singer)[-1]["state"] is None


def test_failing_program_deletes_nothing_and_continues_at_its_last_state(singer: Path, ledger: MemoryLedger) -> None:
    later = {"id": 4, "name": "Service", "at": "2026-01-04"}
    write_streams(singer, added={"key": ["id"], "cursor": "at", "records": [*_FRUIT, "die", later]})
    made = program(singer)
    with pytest.raises(SourceUnavailable, match="exited with code 3"):
        ledger.sync(made)
    assert set(ledger.present()) == {"added/1", "added/2"}
    write_streams(singer, added={"key": ["id"], "cursor": "at", "records": [*_FRUIT, later]})
    assert ledger.sync(made).new == {"added/4"}
    assert calls_of(singer)[-1]["state"] == {"bookmarks": {"added": "2026-01-02"}}


def test_stopped_program_that_ends_well_deletes_nothing(singer: Path, ledger: MemoryLedger) -> None:
    both = {"key": ["id"], "records": _FRUIT}
    write_streams(singer, full=both, later=both, states=both)
    made = program(singer)
    assert len(ledger.sync(made).new) == 6
    write_streams(singer, states=both, full={**both, "records": [_FRUIT[1], "stop"]}, later=both)
    assert ledger.sync(made).deleted == set()
    write_streams(singer, states=both, full={**both, "records": [_FRUIT[1]]}, later=both)
    assert ledger.sync(made).deleted == {"full/1"}


def test_old_program_gets_its_catalog_as_properties(singer: Path, ledger: MemoryLedger) -> None:
    write_streams(singer, old={"key": ["id"], "records": _FRUIT, "is_legacy": True})
    with pytest.raises(
        SourceInvalid, match="printed none of its streams; if it is an old program, set protocol=singer-leg"
    ):
        ledger.sync(program(singer))
    assert ledger.sync(program(singer, protocol="singer-legacy")).new == {"old/1", "old/2"}


def test_plain_program_is_called_as_it_is(tmp_path: Path, ledger: MemoryLedger) -> None:
    write_script(tmp_path, _PLAIN)
    with pytest.raises(SourceUnavailable, match="no option --discover"):
        ledger.sync(program(tmp_path))
    made = program(tmp_path, protocol="plain")
    assert made.probe() == "tap.py: prints records"
    assert ledger.sync(made).new == {"r/1"}
    assert ledger.sync(program(tmp_path, protocol="plain", config={"a": 1})).item_changes == []


_PLAIN = """
import sys
if len(sys.argv) > 1 and sys.argv[1] != "--config":
    sys.exit(f"no option {sys.argv[1]}")
print('{"type": "SCHEMA", "stream": "r", "schema": {}, "key_properties": ["id"]}')
print('{"type": "RECORD", "stream": "r", "record": {"id": 1}}')
"""


def test_cursor_of_the_settings_reads_only_new_records(singer: Path, ledger: MemoryLedger) -> None:
    write_streams(singer, rows={"key": ["id"], "records": _FRUIT})
    made = program(singer, fields={"rows": {"cursor": "at"}})
    ledger.sync(made)
    write_streams(singer, rows={"key": ["id"], "records": []})
    assert ledger.sync(made).deleted == set()
    assert calls_of(singer)[-1]["state"] == {"bookmarks": {"rows": "2026-01-02"}}


def test_lost_copies_of_records_are_read_again_from_the_beginning(singer: Path, ledger: MemoryLedger) -> None:
    write_streams(singer, added={"key": ["id"], "cursor": "at", "records": _FRUIT})
    first, second = program(singer), program(singer)
    ledger.sync(first)
    assert first.folder != second.folder
    report = ledger.sync(second)
    assert calls_of(singer)[-1]["state"] is None
    assert (report.new, report.changed, report.deleted) == (set(), set(), set())
    assert second.fetch(ledger.rows["added/1"].item).title == "Quince"
    with pytest.raises(Vanished):
        second._store().drop(["added/1"])
        second.fetch(ledger.rows["added/1"].item)


def test_other_fields_are_applied_to_records_that_are_not_printed_again(singer: Path, ledger: MemoryLedger) -> None:
    write_streams(singer, added={"key": ["id"], "cursor": "at", "records": _FRUIT})
    folder = singer / "kept"
    for settings, changed in (({}, set()), ({"fields": {"added": {"title": "at"}}}, {"added/1", "added/2"})):
        made = program(singer, **settings)
        made.folder = folder
        assert ledger.sync(made).changed == changed
        made.close()
    content = ledger.rows["added/1"].content
    assert content is not None and content.title == "2026-01-01"


def test_streams_that_are_no_longer_chosen_are_excluded_and_missing_ones_deleted(
    singer: Path, ledger: MemoryLedger
) -> None:
    of = {"key": ["id"], "records": _FRUIT[:1]}
    write_streams(singer, a=of, b=of, c=of)
    ledger.sync(program(singer))
    write_streams(singer, a=of, b=of)
    report = ledger.sync(program(singer, streams=["a"]))
    assert report.skipped.keys() == {"b/1"} and report.deleted == {"c/1"}
    with pytest.raises(SourceInvalid, match=r"d: no stream of tap\.py; it has a, b"):
        program(singer, streams=["d"]).probe()


def test_airbyte_program_is_checked_and_read(airbyte: Path, ledger: MemoryLedger) -> None:
    write_streams(
        airbyte, full={"key": ["id"], "records": _FRUIT}, added={"key": ["id"], "cursor": "at", "records": _FRUIT}
    )
    lines: list[str] = []
    with pytest.raises(SourceInvalid, match=r"lacks place \(Place of the orchard\); add --set config.place"):
        program(airbyte, protocol="airbyte").probe()
    with pytest.raises(SourceInvalid, match="no such place; correct"):
        program(airbyte, protocol="airbyte", config={"place": "nowhere"}).probe()
    made = program(airbyte, protocol="airbyte", config={"place": "here"})
    made.log = lines.append
    assert made.probe() == "tap.py: 2 of 2 streams, of which 1 only adds"
    assert "│ tap.py: config is read" in lines
    assert len(ledger.sync(made).new) == 4
    write_streams(
        airbyte, full={"key": ["id"], "records": []}, added={"key": ["id"], "cursor": "at", "records": _FRUIT[1:]}
    )
    assert ledger.sync(made).deleted == {"full/1", "full/2"}
    [state] = calls_of(airbyte)[-1]["states"]  # type: ignore[misc]
    assert state["stream"]["stream_state"] == {"at": "2026-01-02"}


@pytest.mark.parametrize("status", ["INCOMPLETE", "die"])
def test_airbyte_stream_that_is_not_complete_deletes_nothing(airbyte: Path, ledger: MemoryLedger, status: str) -> None:
    made = program(airbyte, protocol="airbyte", config={"place": "here"})
    write_streams(airbyte, full={"key": ["id"], "records": _FRUIT})
    ledger.sync(made)
    write_streams(airbyte, full={"key": ["id"], "records": ["die"] if status == "die" else [], "status": status})
    if status == "die":
        with pytest.raises(SourceUnavailable, match="the orchard burns"):
            ledger.sync(made)
    else:
        ledger.sync(made)
    assert len(texts(ledger)) == 2


def test_unreadable_lines_fail_alone_and_delete_nothing(tmp_path: Path, ledger: MemoryLedger) -> None:
    write_script(tmp_path)
    write_records(tmp_path, {"a": "one", "b": "two"})
    made = program(tmp_path, limits={"max_mb": 0.01})
    ledger.sync(made)
    write_records(tmp_path, {"a": "one", "c": "{no board", "d": "x" * 20_000, "e": "five"})
    report = ledger.sync(made)
    assert {str(error).partition(";")[0] for error in report.failed.values()} == {
        "line 3: no message of its protocol",
        "line 4: a message of 20.1 KB",
    }
    assert set(texts(ledger)) >= {"texts/a", "texts/b", "texts/e"}
    write_records(tmp_path, {"a": "one", "e": "five"})
    assert ledger.sync(made).deleted >= {"texts/b"}
    assert ledger.sync(made).item_changes == []


def test_long_listing_has_checkpoints(tmp_path: Path) -> None:
    write_script(tmp_path)
    write_records(tmp_path, {str(number): "text" for number in range(5_000)})
    changes = list(program(tmp_path).changes(NothingKnown()))
    places = [place for place, change in enumerate(changes) if isinstance(change, Checkpoint)]
    assert max(after - before for before, after in zip([0, *places], places, strict=False)) <= 2_001


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.text(max_size=5), max_size=8).map(
            lambda texts: {key: text for key, text in texts.items() if text != "{no board"}
        ),
        min_size=1,
        max_size=4,
    )
)
def test_random_history_ends_with_the_records_of_the_program(
    tmp_path_factory: pytest.TempPathFactory, history: list[dict[str, str]]
) -> None:
    folder, ledger = tmp_path_factory.mktemp("program"), MemoryLedger()
    write_script(folder)
    made = program(folder)
    for records in history:
        write_records(folder, records)
        ledger.sync(made)
    assert {locator.removeprefix("texts/") for locator in ledger.present()} == set(history[-1])
    made.close()


_ODD = {
    "a/b": "slash",
    "": "empty",
    "x" * 500: "long",
    "..": "dots",
    "n\u0000l": "nul",
    "é\u2028": "line",
    "%2F": "percent",
}


def test_unusual_records_are_kept(tmp_path: Path, ledger: MemoryLedger) -> None:
    write_script(tmp_path)
    write_records(tmp_path, _ODD)
    made = program(tmp_path)
    ledger.sync(made)
    assert len(texts(ledger)) == len(_ODD)
    assert all(len(locator) < 250 and "\0" not in locator for locator in texts(ledger))
    assert ledger.sync(made).item_changes == []


_TELLS = """
import json, os, pathlib, sys
config = pathlib.Path(sys.argv[sys.argv.index("--config") + 1])
modes = [oct(path.stat().st_mode & 0o777) for path in (config, config.parent)]
facts = {"environment": dict(os.environ), "modes": modes, "config": json.loads(config.read_text()), "path": str(config)}
pathlib.Path(__file__).with_name("facts.json").write_text(json.dumps(facts))
print("the password is hush-hush", file=sys.stderr)
sys.exit(1)
"""


def test_program_gets_a_fixed_environment_and_a_private_configuration_that_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHARD_TOKEN", "hush-hush")
    monkeypatch.setenv("PRIVATE", "of the user")
    write_script(tmp_path, _TELLS)
    lines: list[str] = []
    made = program(
        tmp_path,
        config={"a": {"b": 1}},
        secrets={"a.token": "env:ORCHARD_TOKEN"},
        environment={"REGION": "hill", "MY_TOKEN": "env:ORCHARD_TOKEN"},
    )
    made.log = lines.append
    with pytest.raises(SourceUnavailable, match="«secret»") as error:
        list(made.changes(NothingKnown()))
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["environment"].keys() - {"LC_CTYPE"} == {"PATH", "HOME", "LANG", "TMPDIR", "REGION", "MY_TOKEN"}
    assert facts["environment"]["MY_TOKEN"] == "hush-hush"
    assert facts["modes"] == ["0o600", "0o700"]
    assert facts["config"] == {"a": {"b": 1, "token": "hush-hush"}}
    assert not Path(facts["path"]).exists()
    assert "hush" not in f"{lines} {error.value}"


def test_consent_is_bound_to_all_that_decides_what_runs(tmp_path: Path) -> None:
    write_script(tmp_path)
    names = [
        next(iter(program(tmp_path, **settings).scopes()))
        for settings in (
            {},
            {"command": [str(tmp_path / "tap.py"), "--verbose"]},
            {"config": {"place": "here"}},
            {"environment": {"REGION": "hill"}},
            {"secrets": {"token": "env:TOKEN"}},
            {"protocol": "airbyte"},
        )
    ]
    assert len(set(names)) == len(names)
    assert next(iter(program(tmp_path, priority="high", streams=["a"]).scopes())) == names[0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"command": ["tap"]}, "full path"),
        ({"command": []}, "full path"),
        ({"config": {"db": {"password": "hush"}}}, r"config\.db\.password: a secret"),
        ({"environment": {"LD_PRELOAD": "x"}}, "not a variable"),
        ({"environment": {"MY_TOKEN": "hush"}}, "a secret"),
        ({"environment": {"PATH": "x"}}, "not a variable"),
        ({"secrets": {"token": "hush"}}, "pattern"),
    ],
)
def test_unsafe_settings_are_refused(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        program(tmp_path, **settings)


def test_location_is_a_command_line(tmp_path: Path) -> None:
    path = write_script(tmp_path)
    assert ProgramSettings.located(f"{path} --name 'two words'") == {"command": [str(path), "--name", "two words"]}
    for wrong in ("no-such-tap", str(tmp_path / "none"), "'open"):
        with pytest.raises(BadInput, match=r"program not found|no command line"):
            ProgramSettings.located(wrong)


def test_date_in_a_configuration_stays_as_it_was_typed(tmp_path: Path) -> None:
    from catchment.typed_settings import settings

    made = program(tmp_path, **settings(["config.start_date=2026-01-31", "config.deep.since=2026-01-31T10:00:00Z"]))
    assert made.configured.config["start_date"] == "2026-01-31"
    assert json.dumps(made.configured.model_dump(mode="json"))


def test_sync_can_be_stopped_while_a_program_is_silent(tmp_path: Path) -> None:
    write_script(tmp_path, "import time\ntime.sleep(60)")
    changes = program(tmp_path).changes(NothingKnown())
    began = time.monotonic()
    assert next(changes) == Root({"": "program"})
    assert isinstance(next(changes), Checkpoint) and isinstance(next(changes), Checkpoint)
    changes.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 30
    assert not [
        each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(each.info["cmdline"] or ())
    ]
