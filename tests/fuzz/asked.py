"""Targets for user input: the sources file, settings, commands, searches, times, and files passed to commands."""

from __future__ import annotations

import atexit
import io
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import ClassVar

import orjson
import pytest
from pydantic import ValidationError

from catchment.errors import BadInput, ConfigError, LedgerError, UserError
from catchment.ledger import Ledger, storable_text
from catchment.ledger.admin import backup as copies
from catchment.pacing import windows
from catchment.runtime.home import Home
from catchment.search.language import parse_words
from catchment.search.present import marks, pattern, snippet
from catchment.search.results import Lanes
from catchment.search.search import search
from catchment.settings import SourceSettings
from catchment.sync.plan import Plan
from catchment.typed_settings import settings
from connectors import connector_class, kinds
from connectors.local_files import LocalFilesSettings
from console import arguments
from console.main import main
from deployments.sources.entries import typed
from deployments.sources.sources_file import SourceEntry, SourcesFile, schedule_of
from tests.engine.papers import Papers
from tests.fuzz.promises import storable
from tests.fuzz.target import Target, damaged, shaped, woven

_NOW = datetime(2026, 6, 1, tzinfo=UTC)
_SOURCES = """
deployments:␤
- name: notes␤  entrypoint: flows.obsidian.sync_obsidian␤
  parameters: {name: notes, settings: {root: /tmp}}␤
  work_pool: {name: catchment}␤
  tags: [watch:5s]␤
  schedules: [{interval: 60, timezone: UTC, slug: main}]␤
definitions: &a {b: *a}␤
? [k]␤: v␤
<<: *a␤
a: 2026-99-99␤
a: !!bool maybe␤
!!binary x␤
[
{
:␠
-␠
*a
&a
|␤
"
'
%
...␤
---␤
1: 2␤
␉
# c␤
"""
_TIMES = """
90
999999
w
d
s
2026-01-31
9999-12-31T23:59:59-14:00
0001-01-01T00:00:00+14:00
T12:00
Z
22:00-06:00
24:00-24:00
mon-fri,sun
␠
Europe/Berlin
../x
FREQ=WEEKLY
;BYDAY=MO
;COUNT=-1
;BYEASTER=9999999999
DTSTART:
RRULE:
*/5 * * * *
* *
@daily
-
"""
_ASSIGNED = """
root
=
.
limits.max_mb=20
exclude=[*.md, "!x"]
a=2026-99-99
a=!!bool x
a=&x [*x]
[
{
"
␤
name=env:X
*
:␠
"""
_WORDS = """
gauge
weir
"
*
-
(
)
:
^
NEAR
OR
AND
+
{
}
␠
漢字
กขค
й
ﬁ
%
_
\\
'
\u0301
"""
_COMMANDS = """
jobs␤list␤
jobs␤show␤
quarantine␤list␤
quarantine␤stats␤
search␤
show␤
why␤
related␤
throttle␤set␤
throttle␤show␤
vault␤
--since␤
--state␤
--source␤
--limit␤
--json␤
--blackout␤
--cluster␤
--threads␤
--␤
papers␤
all␤
retrying␤
2h␤
1␤
-1␤
99999999999999999999␤
a.md␤
9999-12-31T23:59:59-14:00␤
22:00-06:00 mon␤
\x1b[2J␤
"""
_PLAN = {
    "catchment_plan": 1, "source": "papers", "made": "2026-01-31T12:00:00+00:00", "deep": False,
    "said": [["there", "a.md", "v1"]], "steps": [],
}  # fmt: skip
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_EXITS = {0, 1, 2, 3, 4, 5, 10}


def targets() -> Iterator[Target]:
    """Return the targets for everything that a user can write or name."""
    yield Target("sources-file", _sources_file, woven(_SOURCES))
    yield Target("settings", _settings, shaped(*_SETTINGS))
    yield Target(
        "locations", _locations, woven("a@b:1\n@\n:\n[::1]\n²\nowner/repo\n/*\n,\nhttps://\n~\n..\n/\n \n.git")
    )
    yield Target("set-values", _set_values, woven(_ASSIGNED))
    yield Target("times", _times, woven(_TIMES, most=6))
    yield Target("search", _search, woven(_WORDS))
    yield Target("command-line", _command_line, woven(_COMMANDS, most=8))
    yield Target("plan-file", _plan_file, shaped(_PLAN))
    yield Target("backup-file", _backup_file, damaged(_backup()))


_SETTINGS = (
    {
        "root": "/tmp",
        "exclude": ["*.md"],
        "include": ["a/**"],
        "limits": {"max_mb": 1},
        "retry": {"attempts": 3, "initial": 1},
    },
    {
        "host": "imap.example.org",
        "user": "ada",
        "port": 993,
        "password": "env:X",
        "include": ["INBOX"],
        "security": "tls",
    },
    {
        "repositories": ["o/r"],
        "address": "https://github.com",
        "branches": ["main"],
        "paths": ["*.py"],
        "token": "env:X",
    },
)


def _sources_file(data: bytes) -> None:
    """The file is read, or refused with its line number; adding and removing a source preserves the others."""
    text = data.decode("utf-8", "replace")
    try:
        file = SourcesFile(Path("sources.yaml"), text)
    except ConfigError as error:
        assert "sources.yaml" in str(error)
        return
    before = file.entries
    with suppress(ConfigError, BadInput):
        file.add(SourceEntry("added", "local_files", connector_class("local_files").settings(root=Path("/tmp"))))
        assert [entry.name for entry in file.entries] == [*(entry.name for entry in before), "added"]
        file.remove("added")
        assert file.entries == before


def _settings(data: bytes) -> None:
    """Settings are accepted or refused; accepted settings round-trip."""
    given = orjson.loads(data)
    for kind in kinds():
        model: type[SourceSettings] = connector_class(kind).settings
        with suppress(ValidationError):
            taken = model.model_validate(given)
            assert model.model_validate(taken.model_dump(mode="json")) == taken
        if isinstance(given, dict):
            with suppress(BadInput):
                typed(model, given)


def _locations(data: bytes) -> None:
    text = data.replace(b"\x00", b"").decode("utf-8", "replace")
    for kind in kinds():
        model = connector_class(kind).settings
        with suppress(UserError, ValidationError, OSError):
            model.model_validate({**model.located(text), "password": "env:X"})


def _set_values(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").split("\n")
    with suppress(BadInput):
        settings(lines)
    with suppress(BadInput):
        arguments.secrets(lines)


def _times(data: bytes) -> None:
    """A time, duration, window or schedule is parsed, or refused with the reason."""
    text = data.decode("utf-8", "replace")
    with suppress(BadInput):
        storable(arguments.moment(text))
    with suppress(BadInput):
        arguments.length(text)
    with suppress(BadInput):
        windows.parse(text)
    for kind in ("every", "cron", "rrule"):
        with suppress(BadInput):
            schedule_of(**{kind: text})


def _search(data: bytes) -> None:
    """Any text is a valid query or has too many words, and snippets are parts of the document."""
    words = data.decode("utf-8", "replace")
    with suppress(BadInput):
        for hit in search(library().ledger, words, _NOW, lanes=Lanes.WORDS).hits:
            assert hit.item in library().texts
    patterns = [pattern(term) for term in parse_words(storable_text(words)).shown]
    for text in ("The gauge at the weir", words):
        found = marks(text, patterns, ())
        snippet(text, found, found[-1] if found else None)


def _command_line(data: bytes) -> None:
    """A command succeeds or reports its error; the output contains no terminal control sequences."""
    arguments = [part.replace("\x00", "") for part in data.decode("utf-8", "replace").split("\n")]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("CATCHMENT_HOME", str(library().home.path))
        patch.delenv("CATCHMENT_DATABASE_URL", raising=False)
        if arguments[0] in ("jobs", "quarantine", "search", "show", "why", "related", "throttle", "vault"):
            assert main(arguments) in _EXITS
    assert "catchment: unexpected" not in err.getvalue()
    assert not _OBEYED.search(out.getvalue() + err.getvalue())


def _plan_file(data: bytes) -> None:
    with suppress(BadInput):
        plan = Plan.from_json(data)
        storable(plan.source)
        assert plan.made.tzinfo is not None


def _backup_file(data: bytes) -> None:
    """A damaged backup changes no state; a restored one is intact."""
    with tempfile.TemporaryDirectory() as folder:
        target, given = Path(folder, "ledger.db"), Path(folder, "given")
        given.write_bytes(data)
        target.write_bytes(_backup())
        try:
            restored = copies.restore(target, given)
        except (UserError, LedgerError):
            assert target.read_bytes() == _backup()
        else:
            assert restored.broken == []


class _Library(Papers):
    """A library of a few notes that lasts for the whole test run."""

    texts: ClassVar = {
        "a.md": "# Gauge\nThe gauge at the weir",
        "漢字.md": "漢字 กขค й \x1b[2J %_\\",
        "b\x1b[2J.md": "weir's \u202egauge",
    }

    def __init__(self, folder: Path) -> None:
        (folder / "papers").mkdir()
        super().__init__(Home(folder / "home").make(), folder / "papers")
        with SourcesFile.changing(self.home.sources_file) as file:
            file.add(SourceEntry("papers", "local_files", LocalFilesSettings(root=self.folder)))
        for name, text in self.texts.items():
            self.write(name, text)
        self.sync()


@cache
def library() -> _Library:
    """Return the library of the test run."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return _Library(folder)


@cache
def _backup() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder, "home")).make()
        ledger = Ledger.open(home.database_url)
        ledger.back_up(Path(folder, "copy"), {"sources.yaml": b"deployments: []\n"})
        ledger.close()
        return Path(folder, "copy").read_bytes()
