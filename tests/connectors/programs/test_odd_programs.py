"""Programs that do not behave: they hang, print for ever, end in the middle, or leave others behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from catchment.contracts import NothingKnown
from catchment.errors import NoConsent, SourceError, SourceInvalid, SourceUnavailable, TryAgain
from catchment.settings import Home
from connectors.programs import Program
from connectors.programs.settings import ProgramSettings
from tests.connectors.programs.scripts import write_records, write_script
from tests.connectors.programs.taps import SCHEMA, Taps, record, texts
from tests.waiting import until

LIMITS: dict[str, Any] = {"silent_minutes": 0.03, "memory_mb": 150, "output_gb": 0.02}


@pytest.fixture
def tap(home: Home, tmp_path: Path) -> Taps:
    tap = Taps(home, tmp_path / "tap", run=LIMITS)
    tap.agree()
    return tap


def others(tap: Taps) -> list[str]:
    """Return the programs that run in the folders of this test."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get("TMPDIR", "").startswith(str(tap.folder.parent)):
                found.append(" ".join(process.cmdline()))
    return found


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("time.sleep(100)", "was silent for 0.03 min"),
        ('while True: print(\'{"type": "RECORD"\')', "100 lines are no messages"),
        ('while True: print("y" * 100)', "printed more than 0.02 GB"),
        ("while True: sys.stdout.write('y' * 10_000)", "printed more than 0.02 GB"),
        ('x = []\nwhile True: x.append(b"x" * 10_000_000); time.sleep(0.01)', "MB of memory"),
        ("os.close(1); time.sleep(100)", "was silent for 0.03 min"),
        ("os._exit(3)", "exited with code 3"),
        ("os.kill(os.getpid(), 11)", "was killed by signal 11"),
        ("print('cannot open /home/anna/secret/x.csv', file=sys.stderr); sys.exit(1)", r"cannot open …/x.csv\)"),
    ],
)
def test_failing_program_deletes_nothing_and_keeps_its_first_records(tap: Taps, code: str, problem: str) -> None:
    tap.prints(*texts(1, 2))
    tap.sync()
    tap.prints(*texts(2, 3), code=code)
    with pytest.raises(SourceError, match=problem):
        tap.sync()
    assert others(tap) == []
    tap.prints(*texts(2, 3))
    tap.sync()
    assert tap.documents().keys() == {"texts/2", "texts/3"}


def test_program_that_closes_its_output_may_still_log(tap: Taps) -> None:
    tap.prints(*texts(1), code="os.close(1)\nfor n in range(20_000): print('log', n, file=sys.stderr)")
    assert tap.sync()["succeeded"] == 1


def test_programs_left_behind_neither_delay_nor_outlive_it(tap: Taps) -> None:
    left = "subprocess.Popen({}, start_new_session={})"
    loop = '["sh", "-c", "while :; do echo x >&2; sleep 0.1; done"]'
    tap.prints(*texts(1), code="\n".join(left.format(loop, is_new) for is_new in (False, True)))
    assert tap.sync()["succeeded"] == 1
    assert until(lambda: others(tap), lambda found: not found) == []


def test_last_words_before_an_exit_are_kept(tap: Taps) -> None:
    words = "first\nlast \x1b[31mwords\x1b[0m\n(more about it)"
    tap.prints(*texts(1), code=f"sys.stderr.write('first\\n' * 20_000 + {words!r}); sys.exit(1)")
    with pytest.raises(SourceUnavailable, match=r"exited with code 1 \(last words\)"):
        tap.sync()
    assert len(tap.log) == 201


def test_log_has_neither_control_characters_nor_secrets(
    tap: Taps, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "-----BEGIN KEY-----\nk3y of/anna+\n-----END KEY-----"
    monkeypatch.setenv("KEY_OF_ANNA", secret)
    tap.settings["secrets"] = {"key": "env:KEY_OF_ANNA"}
    tap.agree()
    words = [
        "\x1b[31mred\x1b[0m",
        "a\rb\x07\x9b\u2028\u202ec",
        "key=k3y of/anna+ end",
        "url?key=k3y%20of%2Fanna%2B end",
    ]
    tap.prints(*texts(1), code=f"sys.stderr.buffer.write({chr(10).join(words).encode()!r})")
    tap.sync()
    assert tap.log == [f"│ tap.py: {words}" for words in ("red", "a b c", "key=«secret» end", "url?key=«secret» end")]


def test_program_that_is_replaced_removed_or_locked_is_named(tap: Taps) -> None:
    tap.prints(*texts(1))
    tap.sync()
    program = tap.folder / "tap.py"
    program.chmod(0o644)
    with pytest.raises(SourceInvalid, match=r"tap.py: not there, or not a program; install it again"):
        tap.sync()
    program.unlink()
    with pytest.raises(SourceInvalid, match="not there"):
        tap.sync()
    program.mkdir()
    with pytest.raises(SourceInvalid, match="not there"):
        tap.sync()
    program.rmdir()
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(SourceError, match="tap"):
        tap.sync()
    tap.prints(*texts(1))
    assert tap.sync()["listed"] == 0
    assert tap.documents().keys() == {"texts/1"}


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"since": "2026-01-01"}},
        {"protocol": "airbyte"},
        {"environment": {"MODE": "all"}},
        {"secrets": {"key": "env:OTHER"}},
        {"command": ["/bin/cat", "output"]},
    ],
)
def test_other_command_or_configuration_needs_consent_again(tap: Taps, change: dict[str, Any]) -> None:
    tap.prints(*texts(1))
    tap.sync()
    tap.settings.update(change)
    with pytest.raises(NoConsent):
        tap.sync()
    with pytest.raises(NoConsent):
        tap.plan()


def test_plan_and_second_sync_beside_a_slow_sync(tap: Taps, home: Home) -> None:
    tap.prints(*texts(*range(50)), code="time.sleep(1)")
    other = Taps(home, tap.folder, run=LIMITS)
    thread = threading.Thread(target=tap.sync)
    thread.start()
    until(lambda: others(tap), bool)
    with pytest.raises(TryAgain):
        other.sync()
    assert len(other.plan().steps) == 50
    thread.join()
    assert len(tap.documents()) == 50
    tap.prints(*texts(*range(1, 51)), record(5, body="other"))
    planned = tap.plan()
    assert tap.prove().findings
    tap.sync(planned)
    assert tap.documents()["texts/5"] == "other"
    assert tap.prove(deep=True).holds


def test_configuration_of_600_keys_and_of_600_lacking_ones(tap: Taps) -> None:
    tap.settings["config"] = {f"key_{number}": {"inner": [number]} for number in range(600)}
    tap.agree()
    check = "import json\nconfig = json.load(open(sys.argv[sys.argv.index('--config') + 1]))\nassert len(config) == 600"
    tap.prints(*texts(1), code=f"if '--config' in sys.argv:\n    {check.replace(chr(10), chr(10) + '    ')}")
    assert tap.sync()["succeeded"] == 1
    keys = [*(f"lacking{number}" for number in range(600)), "\x1b[31m"]
    about = {"settings": {"required": keys, "properties": {"lacking0": {"title": "\x1b[2J" + "x" * 100_000}}}}
    tap.prints(about)
    with pytest.raises(SourceInvalid, match="lacks lacking0") as raised:
        tap.connector.probe()
    assert len(str(raised.value)) < 1_000
    assert str(raised.value).isprintable()


def test_run_of_another_stream_is_no_stream_of_ours(tap: Taps) -> None:
    tap.settings["streams"] = ["texts"]
    other = [{**SCHEMA, "stream": "other"}, record(1, "other"), record(2, "third")]
    tap.prints(*texts(1), *other)
    tap.sync()
    assert tap.documents().keys() == {"texts/1"}


def test_text_with_nul_and_keys_inside_of_fields(tap: Taps) -> None:
    tap.settings["fields"] = {"texts": {"key": ["user.login"]}}
    tap.prints(SCHEMA, record("a\0b", user={"login": "anna"}), record(2, user={"login": "x/.."}))
    tap.sync()
    assert tap.states() == {}
    assert tap.documents() == {"texts/anna": "text a\ufffdb", "texts/x%2F..": "text 2"}


def test_stream_with_another_name_in_its_catalog_and_state(tap: Taps) -> None:
    """As taps for databases print: the identifier has the schema, the messages only the table."""
    streams = [{"tap_stream_id": "public-texts", "stream": "texts", "schema": {}, "metadata": []}]
    catalog = f"import json\nif '--discover' in sys.argv: print(json.dumps({{'streams': {streams}}})); sys.exit()"
    state = {"type": "STATE", "value": {"bookmarks": {"public-texts": {"max_pk": 2}}}}
    tap.prints(*texts(1, 2), state, first=catalog)
    tap.sync()
    assert tap.documents().keys() == {"texts/1", "texts/2"}
    tap.prints(*texts(2, 3), state, first=catalog)
    tap.sync()
    assert tap.documents().keys() == {"texts/2", "texts/3"}


def test_record_that_changed_back_between_two_kills_is_read(tap: Taps) -> None:
    tap.prints(*texts(1))
    tap.sync()
    # Its rows are on the disk before the ledger has its changes.
    kept = tap.connector
    kept.folder = tap.home.copies("papers")
    kept._store().put([("texts/1", "texts", b'{"id":1,"body":"newer"}')])
    kept.close()
    assert tap.sync()["listed"] == 0
    assert tap.prove(deep=True).holds


def test_field_names_are_guessed_in_any_spelling_and_volatile_fields_left_out(tap: Taps) -> None:
    tap.settings["fields"] = {"texts": {"leave_out": ["seen"]}}
    values = {"id": 1, "FULL_NAME": "Anna", "Notes": "a note", "updatedAt": "2026-01-02", "body": None}
    tap.prints(SCHEMA, {"type": "RECORD", "stream": "texts", "record": {**values, "seen": "12:00"}})
    tap.sync()
    [named] = tap.ledger.library.names(tap.source.id)
    assert (named.title, tap.documents()) == ("Anna", {"texts/1": "a note"})
    tap.prints(SCHEMA, {"type": "RECORD", "stream": "texts", "record": {**values, "seen": "13:00"}})
    assert tap.sync()["listed"] == 0
    assert tap.prove(deep=True).holds


def test_deleted_records_and_streams_are_not_kept(tap: Taps) -> None:
    def prints(*messages: dict[str, Any], streams: tuple[str, ...]) -> None:
        entries = [{"stream": name, "replication_key": "at", "schema": {}} for name in streams]
        catalog = f"if '--discover' in sys.argv: print(json.dumps({{'streams': {entries}}})); sys.exit()"
        tap.prints(*({**SCHEMA, "stream": name} for name in streams), *messages, first=f"import json\n{catalog}")

    def kept() -> set[str]:
        connector = tap.connector
        connector.folder = tap.home.copies("papers")
        locators = {locator for locator, _, _ in connector._store()}
        connector.close()
        return locators

    prints(
        *(record(key, name) for name in ("texts", "logs", "mails") for key in (1, 2)),
        streams=("texts", "logs", "mails"),
    )
    tap.sync()
    assert len(kept()) == len(tap.documents()) == 6
    tap.settings["streams"] = ["texts"]
    prints(record(1, _sdc_deleted_at="2026-01-01"), streams=("texts", "logs"))
    tap.sync()
    assert kept() == tap.documents().keys() == {"texts/2"}
    tap.settings["streams"] = []
    state = {"type": "STATE", "value": {"bookmarks": {"logs": {"at": 2}}}}
    prints(record(2), record(1, "logs"), record(2, "logs"), state, streams=("texts", "logs"))
    tap.sync()
    assert kept() == tap.documents().keys() == {"texts/2", "logs/1", "logs/2"}


def test_next_run_ends_what_a_run_killed_with_us_had_started(tmp_path: Path) -> None:
    write_script(
        tmp_path,
        "import subprocess, sys, time\nsubprocess.Popen(['sleep', '77'], start_new_session=True)\ntime.sleep(77)",
    )
    code = f"""
from pathlib import Path
from catchment.contracts import NothingKnown
from connectors.programs import Program
from connectors.programs.settings import ProgramSettings
made = Program(ProgramSettings(command=({str(tmp_path / "tap.py")!r},)))
made.folder = Path({str(tmp_path / "kept")!r})
for _ in made.changes(NothingKnown()):
    print("listing", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as ours:
        assert ours.stdout is not None
        for _ in range(3):
            ours.stdout.readline()
        ours.kill()
    folder = str(tmp_path / "kept")

    def left() -> list[int]:
        return [each.pid for each in psutil.process_iter() if folder in _environment(each).get("TMPDIR", "")]

    assert left()
    write_script(tmp_path)
    write_records(tmp_path, {"a": "one"})
    made = Program(ProgramSettings(command=(str(tmp_path / "tap.py"),)))
    made.folder = Path(folder)
    list(made.changes(NothingKnown()))
    made.close()
    assert until(left, lambda pids: not pids) == []


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}
