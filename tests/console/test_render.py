"""Output: free of control sequences, aligned, and independent of the terminal for scripts."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from catchment.errors import Reason
from console import render


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Return a function that replaces the output by a terminal of 80 columns. Call it in the test, after pytest's capture."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")

    def install() -> Terminal:
        screen = Terminal()
        monkeypatch.setattr(sys, "stdout", screen)
        return screen

    return install


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil.example\x1b\\link", "link"),
        ("\x1b]52;c;cm0gLXJm\x1b\\", ""),
        ("\x9b31mc1", "31mc1"),
        ("a\rb", "a b"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("abc\u202etxt.exe", "abc txt.exe"),
        ("bell\x07 null\x00 del\x7f", "bell null del"),
        ("plain — ünïcode 日本 👩‍💻", "plain — ünïcode 日本 👩‍💻"),
    ],
)
def test_untrusted_text_reaches_the_terminal_with_nothing_that_it_would_obey(hostile: str, harmless: str) -> None:
    assert render.clean(hostile) == harmless


def test_a_block_of_text_keeps_its_lines_and_loses_its_escapes() -> None:
    assert render.clean_block("# Title\r\n\n\tcode \x1b[2Jgone") == "# Title\n\n    code  gone"


def test_a_table_aligns_wide_characters_and_puts_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    render.show_table(("NAME", "ITEMS", "STATE"), [("日本", 7, "active"), ("notes", 1234, "held")])
    assert capsys.readouterr().out.splitlines() == [
        "NAME   ITEMS  STATE",
        "日本       7  active",
        "notes   1234  held",
    ]


def test_on_a_terminal_the_last_column_wraps_within_eighty_columns(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    render.show_table(("JOB", "MESSAGE"), [(1, "word " * 40)])
    lines = screen.getvalue().splitlines()
    assert len(lines) > 3
    assert all(len(line) <= 80 for line in lines[1:])
    assert all(line.startswith("     word") for line in lines[2:])


@pytest.mark.parametrize(
    ("width", "headers", "item"),
    [
        (150, "JOB REASON ATTEMPTS LAST SOURCE ITEM MESSAGE", "Projects/A long folder/Another long folder/visit.md"),
        (100, "JOB REASON ATTEMPTS LAST SOURCE ITEM MESSAGE", "Projects/A long…older/visit.md"),
        (80, "JOB REASON LAST SOURCE ITEM MESSAGE", "Projects/A…/visit.md"),
        (60, "JOB REASON SOURCE ITEM MESSAGE", "Projec…it.md"),
    ],
)
def test_table_fits_a_narrow_terminal(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch, width: int, headers: str, item: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    screen = terminal()
    last = datetime.now(UTC) - timedelta(minutes=20)
    path = "Projects/A long folder/Another long folder/visit.md"
    columns = ("JOB", "REASON", "ATTEMPTS", "LAST", "SOURCE", "ITEM", "MESSAGE")
    render.show_table(columns, [(310, "parse_error", 3, last, "notes", path, "word " * 9)])
    first, *rows = screen.getvalue().splitlines()
    assert all(len(line) <= width for line in rows)
    assert " ".join(first.split()) == headers
    assert item in rows[0]


def test_blank_columns_are_left_out_first(terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen = terminal()
    render.show_table(("NAME", "WAITING", "QUARANTINED", "STATE"), [("notes", 0, 12, "active")])
    assert "WAITING" not in screen.getvalue() and "QUARANTINED" in screen.getvalue()


def test_an_address_stays_in_one_piece(terminal: Callable[[], Terminal]) -> None:
    address = "http://127.0.0.1:4200/v2/runs/flow-run/" + "cc28430f-e267-" * 5
    screen = terminal()
    render.show_fields({"run": address})
    assert address in screen.getvalue()


def test_in_a_pipe_no_line_is_wrapped_or_coloured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    render.show_table(("JOB", "STATE"), [(1, "active " * 40)])
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out


def test_colours_appear_on_a_terminal_and_not_with_no_color(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = terminal()
    render.show_table(("STATE",), [("held",)])
    assert "\x1b[33mheld\x1b[0m" in screen.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    screen = terminal()
    render.show_table(("STATE",), [("held",)])
    assert screen.getvalue() == "STATE\nheld\n"


@dataclass(frozen=True)
class _View:
    title: str
    at: datetime | None = None
    why: Reason | None = None


def test_json_holds_no_raw_control_character_and_reads_back_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "esc \x1b c1 \x9b del \x7f reversed \u202e é"
    render.show_json(_View(hostile))
    out = capsys.readouterr().out
    assert not set("\x1b\x9b\x7f\u202e") & set(out)
    assert "é" in out
    assert json.loads(out)["title"] == hostile


def test_json_says_times_in_utc_and_enumerations_by_their_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zone_time = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
    monkeypatch.setattr(render, "_has_lines", True)
    render.show_json([_View("a", zone_time, Reason.TIMEOUT)])
    assert json.loads(capsys.readouterr().out) == {"title": "a", "at": "2026-11-20T14:00:00Z", "why": "timeout"}


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "now"), (59, "59 s ago"), (3_600, "1 h ago"), (200_000, "2 d ago"), (-125, "in 2 min")]
)
def test_moments_are_said_in_their_largest_unit(seconds: int, said: str) -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    assert render.ago(now - timedelta(seconds=seconds), now) == said


def test_counts_agree_with_their_noun() -> None:
    assert render.count(1, "entry", "entries") == "1 entry"
    assert render.count(12_345, "document") == "12,345 documents"


def test_a_bar_is_as_full_as_what_is_done() -> None:
    assert [render.bar(share, 4) for share in (0, 0.5, 1, 7)] == ["[----]", "[##--]", "[####]", "[####]"]


def test_a_moment_of_another_day_is_told_with_its_day() -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    here = noon.astimezone()
    assert render.clock(noon, noon) == f"{here:%H:%M}"
    assert render.clock(noon + timedelta(days=1), noon) == f"{here + timedelta(days=1):%Y-%m-%d %H:%M}"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the time zone of this process."""

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("Asia/Tokyo", datetime(9999, 12, 31, 23, tzinfo=UTC)),
        ("America/New_York", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_moment_at_the_end_of_the_calendar_is_told_in_every_time_zone(
    zone: Callable[[str], None], name: str, moment: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    zone(name)
    render.show_fields({"created": moment})
    assert capsys.readouterr().out.split()[1] == f"{moment:%Y-%m-%d}"


def test_a_line_of_progress_is_never_longer_than_a_narrow_terminal() -> None:
    script = "import time\nfrom console import render\nwith render.ticking(lambda: 'n' * 60):\n    time.sleep(1.2)\n"
    shown = _on_terminal(script, columns=20)
    lines = shown.split("\r\x1b[K")[1:]
    assert len(lines) >= 2
    assert {len(line) for line in lines} == {19, 0}


_STEPS = (
    "import sys, time\n"
    "from catchment.runtime import heartbeat\n"
    "from console import render\n"
    "render._LINE_SECONDS = 0.0\n"
    "with render.showing_progress():\n"
    "    heartbeat.report('copying', 0, 4)\n"
    "    render._REWRITE_SECONDS = 0.0\n"
    "    heartbeat.report('copying', 3, 4)\n"
    "    heartbeat.report('copying', 4, 4)\n"
    "    heartbeat.report('verifying')\n"
)


def test_progress_is_one_line_on_a_terminal_with_the_time_left() -> None:
    shown = _on_terminal(_STEPS, columns=80).split("\r\x1b[K")
    assert shown == [
        "",
        "copying [--------------------] …",
        "copying [###############-----] 75%, 0 s left",
        "",
        "verifying [--------------------] …",
        "",
    ]


def test_progress_elsewhere_is_lines() -> None:
    done = subprocess.run([sys.executable, "-c", _STEPS], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "copying: …\ncopying: 75%, 0 s left\nverifying: …\n"


def test_a_terminal_that_obeys_nothing_gets_no_line_that_is_written_anew() -> None:
    script = "from console import render\nwith render.ticking(lambda: 'notes'):\n    pass\n"
    assert _on_terminal(script, columns=80, TERM="dumb") == ""


def _on_terminal(script: str, columns: int, **environment: str) -> str:
    """Return the standard error of a script as a terminal of so many columns receives it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    named = {"TERM": "xterm", "CATCHMENT_HOME": "/nowhere", **environment}
    subprocess.run([sys.executable, "-c", script], stderr=theirs, env={**os.environ, **named}, timeout=60, check=True)
    os.set_blocking(ours, False)
    try:
        shown = os.read(ours, 65_536)
    except BlockingIOError:
        shown = b""
    os.close(theirs)
    os.close(ours)
    return shown.decode()
