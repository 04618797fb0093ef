"""Hazards of programs of others that print records: they hang, lie, stop in the middle, or are replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from catchment.errors import NoConsent, SourceError
from catchment.runtime.home import Home
from tests.connectors.programs.taps import SCHEMA, Taps, record, texts
from tests.hazards.model import Area, Hazard, Held, Truth, Verdict, judge

_LIMITS = {"silent_minutes": 0.05, "memory_mb": 150, "output_gb": 0.05}
_COUNT = 40
_UNREADABLE = "unreadable"
_STATE = {"type": "STATE", "value": {"bookmarks": {"texts": {"id": 1}}}}
_INCREMENTAL = {**SCHEMA, "bookmark_properties": ["id"]}


def made(folder: Path) -> Taps:
    """Return a synced library of a program that prints a table."""
    tap = Taps(Home(folder / "home").make(), folder / "tap", run=_LIMITS)
    tap.agree()
    tap.prints(*texts(*range(_COUNT)))
    tap.sync()
    return tap


def truth(*keys: object) -> dict[str, str]:
    """Return the expected documents of a table with these keys."""
    return {f"texts/{key}": f"text {key}" for key in keys}


def found(tap: Taps, expected: Truth, unreadable: int = 0) -> Verdict:
    """Judge the library, and that the ledger is sound and nothing of a run is left."""
    problems = tap.problems()
    verdict = judge(expected, Held({name: [words] for name, words in tap.documents().items()}, frozenset(problems)))
    refused = [name for name in problems if name.startswith(_UNREADABLE)]
    verdict.expect(len(refused) == unreadable, f"in quarantine: {problems}")
    verdict.expect(tap.ledger.check(deep=True) == [], "the ledger is not sound")
    verdict.expect(not [*tap.home.copies("papers").glob(".run*")], "the configuration of a run is left")
    verdict.expect(not _left(tap), f"programs are left: {_left(tap)}")
    return verdict


def _left(tap: Taps) -> list[str]:
    names = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR", "").startswith(str(tap.folder.parent)) and process.pid != os.getpid():
                names.append(" ".join(process.cmdline()))
    return names


def fails(tap: Taps, words: str, verdict: Verdict) -> None:
    """Sync once; expect an error with these words."""
    try:
        tap.sync()
        verdict.expect(False, "the sync did not fail")
    except SourceError as error:
        verdict.expect(words in str(error), str(error))


def failing(code: str, words: str) -> Callable[[Path], Verdict]:
    """Return a hazard of a program that prints new records, fails, and is mended."""

    def happens(folder: Path) -> Verdict:
        tap, noted = made(folder), Verdict()
        tap.prints(SCHEMA, record(0, body="changed"), code=code)
        fails(tap, words, noted)
        noted.wrong += found(tap, truth(*range(1, _COUNT)) | {"texts/0": ""}).wrong
        tap.prints(*texts(*range(1, _COUNT + 1)))
        tap.sync()
        verdict = found(tap, truth(*range(1, _COUNT + 1)))
        verdict.wrong += noted.wrong
        return verdict

    return happens


def printing(lines: Sequence[Any], expected: Truth, unreadable: int = 0, code: str = "") -> Callable[[Path], Verdict]:
    """Return a hazard of a program that prints these lines after its table, twice."""

    def happens(folder: Path) -> Verdict:
        tap = made(folder)
        tap.prints(*texts(*range(_COUNT)), *lines, code=code)
        tap.sync()
        verdict = found(tap, truth(*range(_COUNT)) | dict(expected), unreadable)
        tap.sync()
        verdict.wrong += found(tap, truth(*range(_COUNT)) | dict(expected), unreadable).wrong
        return verdict

    return happens


def exits_in_the_middle_as_if_well(folder: Path) -> Verdict:
    tap = made(folder)
    tap.prints(*texts(0), code="os._exit(0)")
    tap.sync()
    verdict = found(tap, truth(*range(_COUNT)))
    tap.prints(*texts(*range(_COUNT)))
    tap.sync()
    verdict.wrong += found(tap, truth(*range(_COUNT))).wrong
    return verdict


def state_for_each_record(folder: Path) -> Verdict:
    tap = made(folder)
    tap.prints(_INCREMENTAL, *(line for key in range(3_000) for line in (record(key), _STATE)))
    tap.sync()
    return found(tap, truth(*range(3_000)))


def large_state(folder: Path) -> Verdict:
    tap, state = made(folder), {"type": "STATE", "value": {"bookmarks": {"texts": {"seen": "x" * 5_000_000}}}}
    tap.prints(_INCREMENTAL, *map(record, range(_COUNT)), state, code="assert '--state' not in sys.argv")
    tap.sync()
    check = "import json\nassert len(json.load(open(sys.argv[sys.argv.index('--state') + 1]))['bookmarks']['texts']['seen'])"
    tap.prints(
        _INCREMENTAL,
        record("new"),
        state,
        code=f"if '--state' in sys.argv:\n    {check.replace(chr(10), chr(10) + '    ')}",
    )
    tap.sync()
    return found(tap, truth(*range(_COUNT), "new"))


def killed_between_states(folder: Path) -> Verdict:
    tap = made(folder)
    tap.prints(_INCREMENTAL, *map(record, range(50, 60)), _STATE, record(70), code="os.kill(os.getpid(), 9)")
    verdict = Verdict()
    fails(tap, "was killed by signal 9", verdict)
    tap.prints(_INCREMENTAL, record(80), code="assert '--discover' in sys.argv or '--state' in sys.argv")
    tap.sync()
    seen = found(tap, truth(*range(_COUNT), *range(50, 60), 70, 80))
    seen.wrong += verdict.wrong
    return seen


def program_is_replaced_or_locked(folder: Path) -> Verdict:
    tap, verdict = made(folder), Verdict()
    program = tap.folder / "tap.py"
    program.chmod(0o644)
    fails(tap, "not there, or not a program", verdict)
    program.unlink()
    fails(tap, "not there, or not a program", verdict)
    program.write_bytes(b"\x7fELF garbage")
    program.chmod(0o755)
    fails(tap, "tap.py", verdict)
    tap.prints(*texts(*range(1, _COUNT)))
    tap.sync()
    seen = found(tap, truth(*range(1, _COUNT)))
    seen.wrong += verdict.wrong
    return seen


def command_is_changed(folder: Path) -> Verdict:
    tap, verdict = made(folder), Verdict()
    ran = tap.folder / "ran"
    tap.prints(*texts(1), code=f"open({str(ran)!r}, 'w')")
    command = tap.settings["command"]
    assert isinstance(command, list)
    tap.settings["command"] = [*command, "--all"]
    with suppress(NoConsent):
        tap.sync()
        verdict.expect(False, "it ran without consent")
    verdict.expect(not ran.exists(), "it ran without consent")
    seen = found(tap, truth(*range(_COUNT)))
    seen.wrong += verdict.wrong
    return seen


_HUGE = {"type": "RECORD", "stream": "texts", "record": {"id": "huge", "body": "x" * 50_000_000}}
_DEEP = '{"type": "RECORD", "stream": "texts", "record": {"id": 1, "a": ' + "[" * 10_000 + "]" * 10_000 + "}}"
_NUMBERS = (
    b'{"type": "RECORD", "stream": "texts", "record": {"id": "n", "body": "n", "a": NaN, "b": -Infinity, "c": 1'
    + b"0" * 400
    + b"}}"
)
_WORDS = {f"field_{number}": f"value {number}" for number in range(5_000)}
_DATES = [
    record(f"date{at}", updated_at=value) for at, value in enumerate(("9999-12-31T23:59:59-14:00", 1e300, "infinity"))
]
_LOOP = 'subprocess.Popen(["sh", "-c", "while :; do echo x >&2; sleep 0.1; done"], start_new_session=True)'


def _hazard(name: str, expected: str, happens: Callable[[Path], Verdict]) -> Hazard[Path]:
    def inside(folder: Path) -> Verdict:
        return happens(folder / "".join(letter if letter.isalnum() else "-" for letter in name))

    return Hazard(name, expected, inside)


@contextmanager
def scene(folder: Path) -> Iterator[Path]:
    yield folder


_KEPT = "an error; the table as it was"
AREA = Area(
    "commands",
    scene,
    [
        _hazard("a program hangs", _KEPT, failing("time.sleep(100)", "was silent")),
        _hazard("a program prints for ever", _KEPT, failing("while True: print('y' * 100)", "printed more than")),
        _hazard(
            "a line without an end", _KEPT, failing("while True: sys.stdout.write('y' * 9999)", "printed more than")
        ),
        _hazard(
            "a program eats memory",
            _KEPT,
            failing("x = []\nwhile True: x.append(b'x' * 10**7); time.sleep(0.01)", "MB of memory"),
        ),
        _hazard("a program closes its output and lives", _KEPT, failing("os.close(1); time.sleep(100)", "was silent")),
        _hazard("an exit in the middle with 1", _KEPT, failing("os._exit(1)", "exited with code 1")),
        _hazard("an exit in the middle with 0", "no mass deletion", exits_in_the_middle_as_if_well),
        _hazard("programs are left behind", "ended with it", printing([], {}, code=_LOOP)),
        _hazard(
            "100,000 lines of errors", "logged in part", printing([], {}, code="sys.stderr.write('line\\n' * 100_000)")
        ),
        _hazard("broken lines", "quarantined, the others stored", printing(['{"type": "RECORD"', "{"], {}, 2)),
        _hazard("a record of 50 MB", "quarantined, the others stored", printing([_HUGE], {}, 1)),
        _hazard("a record nested 10,000 deep", "quarantined, the others stored", printing([_DEEP], {}, 1)),
        _hazard("numbers that are none", "stored", printing([_NUMBERS], {"texts/n": "n"})),
        _hazard("dates out of range", "stored", printing(_DATES, {f"texts/date{at}": "text" for at in range(3)})),
        _hazard("5,000 fields", "stored", printing([record("wide", **_WORDS)], {"texts/wide": "text wide"})),
        _hazard(
            "HTML of 200,000 open tags",
            "stored",
            printing([record("h", body="<div>" * 200_000 + "words")], {"texts/h": "words"}),
        ),
        _hazard(
            "hostile keys",
            "stored",
            printing([record("../../x\n"), record("")], {"texts/..%2F..%2Fx%0A": "text", "texts/": "text"}),
        ),
        _hazard(
            "one key twice",
            "the last",
            printing([record("k", body="first"), record("k", body="last")], {"texts/k": "last"}),
        ),
        _hazard("a state for each record", "each once", state_for_each_record),
        _hazard("a state of 5 MB", "given back", large_state),
        _hazard("a program is killed after its state", "it continues there", killed_between_states),
        _hazard("a program is replaced, removed or locked", "an error; no deletion", program_is_replaced_or_locked),
        _hazard("a command is changed", "not run without consent", command_is_changed),
    ],
)
