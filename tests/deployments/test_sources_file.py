from __future__ import annotations

import itertools
import os
import re
import stat
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from catchment.errors import BadInput, ConfigError, NotFound
from catchment.settings import ResourceChanges
from connectors.local_files import LocalFilesSettings
from connectors.obsidian import ObsidianSettings
from deployments.sources import sources_version
from deployments.sources.entries import Timing, revise
from deployments.sources.prefect_file import outline
from deployments.sources.sources_file import SourceEntry, SourcesFile, schedule_of

_GOOD = """\
# what I read
pull: []
deployments:
  # the notes
  - name: notes
    entrypoint: flows.obsidian.sync_obsidian
    tags: [source, obsidian, watch]
    parameters:
      name: notes
      settings:
        root: /vault   # on the big disk
    schedules:
      - interval: 900
        slug: main
        timezone: UTC
    work_pool: {name: catchment}

  # the papers
  - name: papers
    entrypoint: flows.local_files.sync_local_files
    parameters: {name: papers, settings: {root: /papers, include: ["*.pdf"]}}
    paused: true
    work_pool: {name: catchment}
# the end
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sources.yaml"


def _entry(name: str, **changes: object) -> SourceEntry:
    fields = {"kind": "obsidian", "settings": ObsidianSettings(root=Path("/v")), "schedules": schedule_of(every="15m")}
    return SourceEntry(name, **{**fields, **changes})  # type: ignore[arg-type]


def _load(path: Path, text: str) -> SourcesFile:
    path.write_text(text)
    return SourcesFile.load(path)


@pytest.mark.parametrize("escape", [r"\0", r"\n", r"\x1b", r"\x7f", r"\x85"])
@pytest.mark.parametrize("key", ["root", "ignore_file"])
def test_control_character_in_a_setting_is_refused_with_its_line(path: Path, key: str, escape: str) -> None:
    settings = {"root": '"/vault"', "ignore_file": '".ignore"'}
    settings[key] = settings[key][:-1] + escape + '"'
    text = _GOOD.replace("root: /vault ", ", ".join(f"{name}: {value}" for name, value in settings.items()))
    text = text.replace("settings:\n        root", "settings: {root").replace("# on the big disk", "}")
    with pytest.raises(ConfigError, match=rf"^sources.yaml line 1\d: {key}: contains the control character U\+00"):
        _load(path, text)


def test_missing_file_has_no_sources(path: Path) -> None:
    assert SourcesFile.load(path).entries == ()
    assert not path.exists()


def test_entry_has_settings_schedules_watch_and_pause(path: Path) -> None:
    notes, papers = _load(path, _GOOD).entries
    assert (notes.name, notes.kind, notes.watch, notes.paused) == ("notes", "obsidian", True, False)
    assert notes.settings == ObsidianSettings(root=Path("/vault"))
    assert notes.schedules[0].slug == "main"
    assert (papers.kind, papers.watch, papers.paused) == ("local_files", False, True)
    assert papers.settings == LocalFilesSettings(root=Path("/papers"), include=("*.pdf",))


def test_added_source_is_read_back_equal_and_private(path: Path) -> None:
    file = SourcesFile.load(path)
    entries = (
        _entry("a", watch=True),
        _entry("b", kind="local_files", settings=LocalFilesSettings(root=Path("/ü: #")), schedules=()),
        _entry("c", schedules=schedule_of(cron="0 7 * * *"), paused=True),
        _entry("d", watch=True, quiet=0.0),
        _entry("e", watch=True, quiet=12.5),
    )
    for entry in entries:
        file.add(entry)
    file.save()
    assert SourcesFile.load(path).entries == entries
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in path.parent.iterdir()] == ["sources.yaml"]


def test_adding_and_removing_keeps_the_rest_of_the_text(path: Path) -> None:
    file = _load(path, _GOOD)
    file.add(_entry("new"))
    file.save()
    assert path.read_text().startswith(_GOOD.removesuffix("# the end\n"))
    assert path.read_text().endswith("# the end\nversion: 2\n")
    file.remove("new")
    file.save()
    assert path.read_text() == f"{_GOOD}version: 2\n"
    file.remove("notes")
    file.save()
    assert "# what I read" in path.read_text()
    assert "# the papers" in path.read_text()
    assert "/vault" not in path.read_text()
    assert [entry.name for entry in SourcesFile.load(path).entries] == ["papers"]


def test_last_source_can_be_removed_and_another_added(path: Path) -> None:
    file = SourcesFile.load(path)
    file.add(_entry("only"))
    file.remove("only")
    file.save()
    assert yaml.safe_load(path.read_text())["deployments"] == []
    file.add(_entry("next"))
    assert [entry.name for entry in file.entries] == ["next"]


@pytest.mark.parametrize(
    "text", ["", "deployments:\n", "deployments: # none\n# end", "pull: []", "deployments: []  # x\npull: []\n", "# x"]
)
def test_source_can_be_added_to_any_empty_file(path: Path, text: str) -> None:
    file = _load(path, text)
    file.add(_entry("first"))
    file.save()
    assert [entry.name for entry in SourcesFile.load(path).entries] == ["first"]


def test_adding_to_a_current_file_keeps_the_rest_and_no_copy(path: Path) -> None:
    text = f"# mine\nversion: 2\n{_GOOD}"
    file = _load(path, text)
    assert not file.is_older
    file.add(_entry("new"))
    file.remove("new")
    file.save()
    assert path.read_text() == text
    assert [found.name for found in path.parent.iterdir()] == ["sources.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        _GOOD,
        _GOOD.removesuffix("\n"),
        _GOOD.replace("\n", "\r\n"),
        f"%YAML 1.1\n---\n{_GOOD}...\n# after the end\n",
        textwrap.indent(_GOOD, "   "),
        "{deployments: [], pull: []}",
        "{}",
        "# only this",
        "",
    ],
)
def test_file_without_version_is_migrated_with_a_copy(path: Path, text: str) -> None:
    path.write_bytes(text.encode())
    file = SourcesFile.load(path)
    assert file.is_older
    assert path.read_bytes() == text.encode(), "reading changed it"
    file.save()
    assert path.with_name("sources.yaml.version-0").read_bytes() == text.encode()
    led = SourcesFile.load(path)
    assert (led.is_older, led.entries) == (False, file.entries)
    assert yaml.safe_load(path.read_text()) == {"version": 2, **(yaml.safe_load(text) or {})}
    assert [line for line in path.read_text().splitlines() if "#" in line] == [
        line for line in text.splitlines() if "#" in line
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("resources: {cores: 2, at_once: 3, memory_mb: 900}", "resources: {at_once: 3}"),
        ("resources: {cores: 2}  # mine", "resources: {}  # mine"),
        ("resources:\n          cores: 2\n          at_once: 3", "resources:\n          at_once: 3"),
        ("resources: {at_once: 3}", "resources: {at_once: 3}"),
        ("resources:", "resources:"),
        ("resources: 5", "resources: 5"),
        ("limits: {memory_mb: 900}", "limits: {memory_mb: 900}"),
    ],
)
@pytest.mark.parametrize("version", ["version: 1\n", ""])
def test_resources_without_effect_are_removed_with_a_copy(path: Path, before: str, after: str, version: str) -> None:
    text = _GOOD.replace("root: /vault ", f"{before}\n        root: /vault ") + version
    migrated = sources_version.migrated(outline(text, "sources.yaml"))
    assert migrated.text == _GOOD.replace("root: /vault ", f"{after}\n        root: /vault ") + "version: 2\n"
    if not before.endswith((":", "5")):
        file = _load(path, text)
        at_once = 3 if "at_once" in after else None
        assert next(entry.settings.resources for entry in file.entries if entry.name == "notes") in (
            None,
            ResourceChanges(at_once=at_once),
        )
        file.save()
        assert path.with_name(f"sources.yaml.version-{int(bool(version))}").read_text() == text
        assert SourcesFile.load(path).entries == file.entries


def test_entry_in_one_line_loses_its_resources_without_effect(path: Path) -> None:
    settings = "{root: /vault, resources: {memory_mb: 64, cores: 1}}"
    pool, flow = "work_pool: {name: catchment}", "entrypoint: flows.obsidian.sync_obsidian"
    entry = f"{{name: notes, {flow}, {pool}, parameters: {{name: notes, settings: {settings}}}}}"
    file = _load(path, f"{{version: 1, pull: [], deployments: [{entry}]}}")
    assert [one.settings.resources for one in file.entries] == [ResourceChanges()]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("3", "version 3, but this program supports only up to 2"),
        ("one", "invalid version"),
        ("true", "write"),
        ("-1", "write"),
    ],
)
def test_unknown_version_is_refused(path: Path, version: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        _load(path, f"# mine\nversion: {version}\nsources: {{}}\n")
    assert str(caught.value).startswith("sources.yaml line 2: ")


def test_killed_migration_leaves_the_old_or_the_new_file(path: Path) -> None:
    new = f"{_GOOD}version: 2\n"
    seen = set()
    for at in itertools.count(1):
        for left in path.parent.iterdir():
            left.unlink()
        path.write_text(_GOOD)
        code = _killed(at, lambda: SourcesFile.load(path).save())
        copy = path.with_name("sources.yaml.version-0")
        seen.add((path.read_text(), copy.exists()))
        assert not copy.exists() or copy.read_text() == _GOOD
        if code == 0:
            break
        SourcesFile.load(path).save()
        assert (path.read_text(), copy.read_text()) == (new, _GOOD)
    assert seen == {(_GOOD, False), (_GOOD, True), (new, True)}


def _killed(at: int, work: Callable[[], None]) -> int:
    """Run an action in a process that is killed before its `at`-th open, rename or removal of a file. Returns the exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    met = itertools.count(1)

    def kill(event: str, _: object) -> None:
        if event in ("open", "os.rename", "os.remove") and next(met) == at:
            os._exit(9)

    sys.addaudithook(kill)
    try:
        work()
    except BaseException:  # noqa: BLE001 - the fork must not continue with the tests of its parent
        os._exit(8)
    os._exit(0)


def test_entry_with_a_used_anchor_is_not_removed(path: Path) -> None:
    text = _GOOD.replace("work_pool: {name: catchment}", "work_pool: &pool {name: catchment}", 1)
    text = text.replace("paused: true\n    work_pool: {name: catchment}", "work_pool: *pool")
    file = _load(path, text)
    with pytest.raises(ConfigError, match="by hand"):
        file.remove("notes")
    assert len(file.entries) == 2


_SPELLINGS = {
    "as it is": _GOOD,
    "settings in one line": _GOOD.replace(
        "settings:\n        root: /vault   # on the big disk", "settings: {root: /vault, exclude: [a]}  # flow"
    ),
    "parameters in one line": _GOOD.replace(
        "parameters:\n      name: notes\n      settings:\n        root: /vault   # on the big disk",
        "parameters: {name: notes, settings: {root: /vault}}",
    ),
    "a list below its key": _GOOD.replace(
        "/vault ", "/vault\n        exclude:\n        - a\n        - b  # why\n       "
    ),
    "another order": _GOOD.replace(
        "  - name: notes\n    entrypoint: flows.obsidian.sync_obsidian\n    tags: [source, obsidian, watch]",
        "  - tags: [source, mine, watch:5s]\n    name: notes\n    entrypoint: flows.obsidian.sync_obsidian",
    ),
    "an empty value": _GOOD.replace("/vault ", "/vault\n        encoding:  # detected\n       "),
    "no schedules": _GOOD.replace(
        "    schedules:\n      - interval: 900\n        slug: main\n        timezone: UTC\n", ""
    ),
    "no end of the last line": _GOOD.removesuffix("# the end\n").rstrip(),
    "more of the user": _GOOD.replace("    work_pool", "    triggers:\n      - {enabled: true}\n    work_pool", 1),
    "windows lines": _GOOD.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("spelling", _SPELLINGS)
@pytest.mark.parametrize("name", ["notes", "papers"])
def test_changed_source_keeps_the_rest_of_the_text(path: Path, spelling: str, name: str) -> None:
    path.write_bytes(f"version: 2\n{_SPELLINGS[spelling]}".encode())
    text = path.read_text()
    entries = {entry.name: entry for entry in SourcesFile.load(path).entries}
    given = {"encoding": "shift_jis", "exclude": ["*.tmp"], "limits": {"max_mb": 20}}
    new = revise(entries[name], given, Timing(cron="0 7 * * *", watch=name == "papers"))
    with SourcesFile.changing(path) as file:
        take_back = file.change(new)
    assert {entry.name: entry for entry in SourcesFile.load(path).entries} == {**entries, name: new}
    lost = set(text.splitlines()) - set(path.read_text().splitlines())
    values = r"(- )?(tags|interval|slug|timezone|encoding|exclude|parameters|settings): ?.*|- [ab]( +# why)?"
    assert [line for line in lost if not re.fullmatch(values, line.strip())] == []
    with SourcesFile.changing(path) as file:
        take_back(file)
    assert path.read_text() == text


def test_change_is_taken_back_although_others_edited_the_file(path: Path) -> None:
    file = _load(path, _GOOD)
    before = file.entries
    take_back = file.change(revise(before[0], {"exclude": "x"}, Timing(every="1h")))
    file.save()
    path.write_text(path.read_text() + "# edited since\n")
    with SourcesFile.changing(path) as later:
        take_back(later)
    assert SourcesFile.load(path).entries == before
    assert path.read_text().endswith("# edited since\n")


def test_settings_shared_by_an_anchor_are_not_changed(path: Path) -> None:
    text = _GOOD.replace("settings:\n", "settings: &all\n").replace('{root: /papers, include: ["*.pdf"]}', "*all")
    file = _load(path, text)
    for entry in file.entries:
        with pytest.raises(ConfigError, match="by hand"):
            file.change(revise(entry, {"exclude": "x"}, Timing()))


def test_names_are_checked_and_unique(path: Path) -> None:
    file = _load(path, _GOOD)
    with pytest.raises(BadInput, match="already"):
        file.add(_entry("notes"))
    with pytest.raises(BadInput, match="lower-case"):
        file.add(_entry("My Notes"))
    with pytest.raises(NotFound, match="sources list"):
        file.remove("mail")


_WRONG = {
    "an unknown key of a deployment": (
        "    work_pool: {name: catchment}\n\n",
        "    wrok_pool: {}\n\n",
        16,
        "work_pool",
    ),
    "an unknown key of a schedule": ("slug: main", "slugg: main", 14, "did you mean slug"),
    "an unknown key of the file": ("pull: []", "pul: []", 2, "did you mean pull"),
    "an unknown setting": ("root: /vault", "roots: /vault", 11, "did you mean root"),
    "an unknown parameter": ("parameters:\n      name: notes", "parameters:\n      nam: notes", 9, "unknown key nam"),
    "a bad type": ("interval: 900", "interval: often", 13, "interval"),
    "a missing time zone": ("        timezone: UTC\n", "", 13, "timezone is missing"),
    "a missing slug": ("        slug: main\n", "", 13, "slug is missing"),
    "a wrong time zone": ("timezone: UTC", "timezone: Mars/Base", 15, "time zone"),
    "two kinds of time": ("interval: 900", 'interval: 900\n        cron: "* * * * *"', 13, "exactly one"),
    "a bad cron line": ("interval: 900", 'cron: "61 * * * *"', 13, "minute"),
    "a path entrypoint": ("flows.obsidian.sync_obsidian", "flows/obsidian.py:sync_obsidian", 6, "entrypoint"),
    "an unknown flow": ("flows.obsidian.sync_obsidian", "flows.obsidian.sync_vault", 6, "flows.obsidian.sync_obsidian"),
    "another pool": ("work_pool: {name: catchment}\n\n", "work_pool: {name: other}\n\n", 16, "catchment"),
    "a relative root": ("root: /vault", "root: vault", 11, "full path"),
    "a name that differs": ("      name: notes", "      name: note", 9, "equal"),
    "a name twice": ("  - name: papers", "  - name: notes", 19, "used in line 5"),
    "a key twice": ("    paused: true", "    paused: true\n    paused: false", 23, "duplicate key"),
    "no YAML": ("    tags: [source", "    tags: [source]]", 7, "YAML"),
    "a misplaced limit": (
        "work_pool: {name: catchment}\n\n",
        "work_pool: {name: catchment, concurrency_limit: 1}\n\n",
        16,
        "",
    ),
}


@pytest.mark.parametrize("what", _WRONG)
def test_mistake_is_reported_with_line_and_remedy(path: Path, what: str) -> None:
    right, wrong, line, remedy = _WRONG[what]
    assert right in _GOOD
    with pytest.raises(ConfigError) as caught:
        _load(path, _GOOD.replace(right, wrong, 1))
    message = str(caught.value)
    assert message.startswith(f"sources.yaml line {line}: "), message
    assert remedy in message
    assert "\n" not in message


def test_mistake_is_reported_without_values_of_the_file(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(path, _GOOD.replace("root: /vault", "root: [hunter2]"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("tags", ["[watch:121s]", "[watch:5]", "[watch, watch:5s]", "[watch:-1s]"])
def test_invalid_quiet_period_is_reported_with_its_line(path: Path, tags: str) -> None:
    with pytest.raises(
        ConfigError, match=r"line \d+: invalid tag; write watch, or watch:5s for a quiet period of 0 to 120 seconds"
    ):
        _load(path, _GOOD.replace("tags: [source, obsidian, watch]", f"tags: {tags}"))


@pytest.mark.parametrize(("data", "said"), [(b"\xff\xfe", "UTF-8"), (b"- a\n- b\n", "mapping"), (b"\x00", "YAML")])
def test_unreadable_file_is_reported_in_one_line(path: Path, data: bytes, said: str) -> None:
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        SourcesFile.load(path)


def test_very_large_file_is_neither_read_nor_written(path: Path) -> None:
    path.write_text("# é\n" * 200_000 + "deployments: []\n")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.truncate(2**33)  # The rest is sparse.
    with pytest.raises(ConfigError, match=r"sources.yaml: larger than 1 MB; remove"):
        SourcesFile.load(path)
    with path.open("ab") as file:
        file.truncate(size)
    with pytest.raises(ConfigError, match="larger than 1 MB"), SourcesFile.changing(path):
        pass
    path.write_text("# " + "x" * 999_900 + "\ndeployments: []\n")
    with pytest.raises(ConfigError, match="larger than 1 MB"), SourcesFile.changing(path) as sources:
        sources.add(SourceEntry("notes", "local_files", LocalFilesSettings(root=path.parent)))
    assert path.stat().st_size < 1_000_000


def test_file_with_bom_and_windows_lines_is_read_and_edited(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + _GOOD.replace("\n", "\r\n").encode())
    file = SourcesFile.load(path)
    file.add(_entry("new"))
    file.save()
    assert [entry.name for entry in SourcesFile.load(path).entries] == ["notes", "papers", "new"]


def test_linked_file_stays_at_its_target(path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "mine.yaml"
    kept.parent.mkdir()
    kept.write_text(_GOOD)
    path.symlink_to(kept)
    with SourcesFile.changing(path) as file:
        file.add(_entry("new"))
    assert path.is_symlink()
    assert [entry.name for entry in SourcesFile.load(kept).entries] == ["notes", "papers", "new"]
    assert [found.name for found in kept.parent.iterdir()] == ["mine.yaml"]


def test_unchanged_file_is_not_written(path: Path) -> None:
    with SourcesFile.changing(path):
        pass
    assert not path.exists()
