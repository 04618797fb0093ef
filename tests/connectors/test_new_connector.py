"""`catchment connector new` writes a package that keeps the contract; the suite notices a connector that does not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from catchment.contracts import Known
from catchment.errors import SourceUnavailable
from catchment.model import Change, Item, RawContent
from catchment.runtime.installation import FILES
from connectors.contract import suite
from connectors.contract.memory_ledger import MemoryLedger
from connectors.contract.quality import RULES
from console.main import main
from tests.outside_packages import environment

_TEMPLATE = FILES / "examples" / "connector"


def _loaded(file: Path) -> Any:
    spec = spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = sys.modules[file.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SampleSource: Any = _loaded(_TEMPLATE / "catchment_sample.py").SampleSource
TestSample: Any = _loaded(_TEMPLATE / "test_sample.py").TestSample
TestSample.__test__ = False


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Quotes", "'Quotes': not a name of a kind; use lower-case letters, digits and _, a letter first"),
        ("../quotes", "'../quotes': not a name of a kind; use "),
        ("2nd", "'2nd': not a name of a kind; use "),
        ("q" * 41, "not a name of a kind; use "),
        ("upkeep", "upkeep: the name of another flow; choose another name"),
        ("web", "web: this kind of source exists; choose another name"),
        ("taken", "taken: exists in this folder; choose another name, or another folder"),
    ],
)
def test_unusable_name_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    assert main(("connector", "new", name)) == 2
    assert problem in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["taken"]


@pytest.mark.parametrize("name", ["q", "source", "my_kind2"])
def test_new_package_has_the_name_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(("connector", "new", name)) == 0
    files = [path for path in (tmp_path / name).iterdir() if not path.name.startswith("__")]
    assert {path.name for path in files} == {"README.md", "pyproject.toml", f"catchment_{name}.py", f"test_{name}.py"}
    assert "sample" not in "".join(path.read_text().lower() for path in files)
    made = _loaded(tmp_path / name / f"catchment_{name}.py")
    point = (tmp_path / name / "pyproject.toml").read_text().partition(f"catchment_{name}:")[2].partition('"')[0]
    assert getattr(made, point).kind == name


@pytest.mark.full
def test_new_package_passes_its_tests_when_installed(tmp_path: Path) -> None:
    commands = environment(tmp_path / "environment")
    variables = {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "CATCHMENT_HOME": str(tmp_path / "home"),
    }
    variables.pop("PYTEST_ADDOPTS", None)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    assert run("catchment", "connector", "new", "quotes").returncode == 0
    assert "unknown kind of source 'quotes'; choose one of " in run("pytest", "quotes").stdout
    assert run("pip", "install", "--editable", "quotes").returncode == 0
    tested = run("pytest", "quotes")
    assert tested.returncode == 0, tested.stdout
    assert " passed, 3 skipped" in tested.stdout
    assert "quotes" in run("catchment", "sources", "kinds").stdout
    module = tmp_path / "quotes" / "test_quotes.py"
    module.write_text(module.read_text().replace("ferry: It is late.\\n", "", 1))
    assert "assert 3 == 4" in run("pytest", "quotes").stdout


class _Rootless(SampleSource):
    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        return iter([*super().changes(known, deep=deep)][1:])


class _Forgetful(SampleSource):
    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        return iter(change for change in super().changes(known) if type(change).__name__ != "Tombstone")


class _Restless(SampleSource):
    numbers: ClassVar[Iterator[int]] = count()

    def entries(self) -> Iterator[Any]:
        return (entry._replace(title=f"{next(self.numbers)}") for entry in super().entries())


class _Careless(SampleSource):
    def fetch(self, item: Item) -> RawContent:
        return RawContent(b"It is somehow.", f"{item.locator}.txt")


class _Eager(SampleSource):
    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.text = settings.file.read_text()


class _Asking(SampleSource):
    def entries(self) -> Iterator[Any]:
        socket.create_connection(("127.0.0.1", 9))
        return super().entries()


class _Printing(SampleSource):
    def entries(self) -> Iterator[Any]:
        print(self.configured.file)
        return super().entries()


class _Talkative(SampleSource):
    def probe(self) -> str:
        if not self.configured.file.exists():
            raise SourceUnavailable(f"{self.configured.file}: away; wait")
        return super().probe()


class _Emptied(SampleSource):
    def entries(self) -> Iterator[Any]:
        return super().entries() if self.configured.file.exists() else iter(())


class _Open(SampleSource):
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.configured, lambda: None)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (_Rootless, "test_root_comes_first_and_checkpoint_last"),
        (_Restless, "test_second_listing_reports_no_changes"),
        (_Restless, "test_listing_without_marks_changes_no_items"),
        (_Restless, "test_deep_listing_of_unchanged_content_changes_no_items"),
        (_Forgetful, "test_listing_after_changes_is_followed_by_an_empty_one"),
        (_Forgetful, "test_next_listing_completes_an_interrupted_one"),
        (_Careless, "test_every_listed_item_can_be_fetched"),
        (_Careless, "test_fetching_a_deleted_item_raises_an_item_error"),
        (_Eager, "test_constructor_does_not_read_the_source"),
        (_Asking, "test_no_host_is_asked_before_consent"),
        (_Printing, "test_errors_and_output_have_no_full_path_and_no_content"),
        (_Talkative, "test_errors_and_output_have_no_full_path_and_no_content"),
        (_Emptied, "test_missing_source_raises_an_error_and_keeps_all_items"),
        (_Emptied, "test_source_lost_while_fetching_raises_a_source_error"),
        (_Open, "test_connector_and_changes_can_be_pickled"),
        (SampleSource, "test_moved_item_is_the_same_item"),
        (SampleSource, "test_pages_have_each_setting_and_the_limits"),
    ],
)
def test_suite_notices_a_broken_connector(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    broken: Any,
    test: str,
) -> None:
    def carried_out(cls: Any, folder: Path) -> None:
        folder.mkdir()
        monkeypatch.setattr(suite, "connector_class", lambda kind: cls)
        sample = TestSample()
        sample.fill(folder)
        given = {"place": folder, "ledger": MemoryLedger(), "monkeypatch": monkeypatch, "tmp_path": tmp_path}
        given |= {"capfd": capfd, "caplog": caplog}
        method: Callable[..., None] = getattr(sample, test)
        names = method.__code__.co_varnames[1 : method.__code__.co_argcount]
        made = {} if "connector" not in names else {"connector": sample._made(folder)}
        method(**{name: {**given, **made}[name] for name in names})

    if broken is not SampleSource:
        carried_out(SampleSource, tmp_path / "sound")
    monkeypatch.undo()
    with pytest.raises((Exception, pytest.fail.Exception)):
        carried_out(broken, tmp_path / "broken")


@pytest.mark.parametrize(
    ("words", "proofs", "problem"),
    [
        ({}, {}, None),
        ({"level": "gold"}, {}, r"name a test in `proofs`, or exempt: \['golden', 'oddities'\]"),
        ({"level": "gold"}, {"golden": "::fill", "oddities": "catchment_sample.py::located"}, None),
        ({}, {"golden": "::no_such_test"}, "golden: no test ::no_such_test"),
        ({"exempt": {"parsers": "", "moves": "none"}}, {}, "an exemption needs a reason"),
        ({"exempt": {"parser": "none"}}, {}, r"no such rules; see docs/connectors.md: \['parser'\]"),
        ({"exempt": {}}, {}, r"or exempt: \['parsers'\]"),
        ({"level": "", "exempt": {}}, {}, None),
    ],
)
def test_suite_asks_for_each_rule_of_the_level(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, Any], proofs: dict[str, str], problem: str | None
) -> None:
    claims = type("Claims", (SampleSource,), {"manifest": replace(SampleSource.manifest, **words)})
    monkeypatch.setattr(suite, "connector_class", lambda kind: claims)
    monkeypatch.setattr(TestSample, "proofs", proofs)
    if problem is None:
        TestSample().test_each_rule_of_the_level_is_done_or_exempt()
        return
    with pytest.raises(AssertionError, match=problem):
        TestSample().test_each_rule_of_the_level_is_done_or_exempt()


def test_each_rule_is_checked_kept_by_a_base_or_needs_a_proof() -> None:
    checks = [test for rule in RULES.values() for test in rule.tests]
    tests = {name for name in vars(suite.ConnectorContract) if name.startswith("test_")}
    assert sorted(checks) == sorted(tests - {"test_each_rule_of_the_level_is_done_or_exempt"})
    assert {rule.kept_by for rule in RULES.values()} == {"", "Listing", "HostListing", "FolderConnector"}
    assert {name for name, rule in RULES.items() if not rule.kept_by and not rule.tests} == {"oddities", "golden"}
