"""Fixtures and hooks for all folders of tests: a fresh home, one real server per session, and the order of tests."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from catchment.parser_pool import ParserPool
from catchment.search.meaning import builtin
from catchment.search.meaning.builtin import BuiltIn
from catchment.settings import Home
from catchment.sync.shared import use_pool
from deployments.runner.preload import parser_modules
from deployments.supervisor.supervisor import Running, down, running, up
from tests.pictures.scans import Programs

# Background jobs of a shell ignore SIGINT, and their children inherit this; some tests send SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

_PROJECT = Path(__file__).parents[1]
_ONE_SERVER = {
    "tests/acceptance/shared": "person",
    "tests/flows": "server of the flows",
    "tests/scale": "hosts",
    "tests/console/test_running.py": "server",
    "tests/deployments/test_deploy.py": "server",
    "tests/deployments/test_server.py": "server",
    "tests/deployments/watch/test_on_server.py": "server",
    "tests/deployments/worker": "server",
}
"""Files and folders of tests that share one server, by its name: a start takes 8 s of processor time.

The tests of a group run one after the other. The flows have a separate server, beside the longest group.
"""
_MARK = re.compile(r"\bmark\.(\w+)")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=1, help="factor for the number of random faults")


def pytest_configure(config: pytest.Config) -> None:
    """Use the same Hypothesis examples in each run, so that results are repeatable; with `--times`, draw new ones."""
    settings.register_profile("catchment", derandomize=config.getoption("times") == 1, deadline=None)
    settings.load_profile("catchment")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of modules and conftests without a selected test: importing all takes 10 s in each process."""
    expression = config.option.markexpr
    tests = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return True if expression and all(_is_deselected(expression, file) for file in tests) else None


def _is_deselected(expression: str, file: Path) -> bool:
    conftest = file.with_name("conftest.py")
    fixtures = conftest.read_text() if conftest.exists() else ""
    return file.match("test_*.py") and cannot_select(expression, file.read_text(), fixtures)


def cannot_select(expression: str, module: str, fixtures: str = "") -> bool:
    """Return whether a marker expression deselects every test of a module, judged by its source text alone.

    Every test has the marks of a `pytestmark` line. It may have each other mark of the module, or of the `fixtures`
    in its folder's conftest.py. An expression with more than `and`, `or`, `not` and parentheses excludes no test.
    """
    if not re.fullmatch(r"[\w\s()]+", expression):
        return False
    selects = compile(expression.strip(), "markers", "eval")
    everywhere = set(_MARK.findall(" ".join(re.findall(r"^pytestmark = .*", module, re.MULTILINE))))
    possible = set(_MARK.findall(module + fixtures)) - everywhere
    variable = sorted(possible & set(selects.co_names))
    for choice in itertools.product((False, True), repeat=len(variable)):
        marks = everywhere | set(itertools.compress(variable, choice))
        if eval(selects, {"__builtins__": {}}, {name: name in marks for name in selects.co_names}):
            return False
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest tests first: at the end, they would keep one process busy while the others are idle."""
    slow = {
        item.path for item in items if any(map(item.get_closest_marker, ("server", "acceptance", "faults", "browser")))
    }
    items.sort(key=lambda item: (_shared_server(item.nodeid) is None, item.path not in slow))
    # Imported and collected objects stay until the end. Searching them for garbage again would take a second in 25.
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Assign each file to one process, and all files that share a server as well."""
    return _ByServer(config, log)


class _ByServer(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return _shared_server(nodeid) or str(super()._split_scope(nodeid))


def _shared_server(nodeid: str) -> str | None:
    file = Path(nodeid.partition("::")[0])
    return _ONE_SERVER.get(str(file)) or _ONE_SERVER.get(str(file.parent))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the number of killed processes, if any."""
    passed = (report.user_properties for report in terminalreporter.stats.get("passed", ()))
    kills = sum(int(str(value)) for properties in passed for name, value in properties if name == "kills")
    if kills:
        terminalreporter.write_line(f"{kills} processes were killed; all tests passed afterwards")


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> int:
    """The factor for the number of random faults."""
    return int(request.config.getoption("times"))


@pytest.fixture(scope="session", autouse=True)
def parsers() -> Iterator[None]:
    """Let all syncs of this process share a parser pool, as in the runner: a new one takes a second of processor time."""
    with ParserPool(2, preload=parser_modules()) as pool:
        use_pool(pool)
        # A forked process has no threads that feed the parsers.
        os.register_at_fork(after_in_child=lambda: use_pool(None))
        yield
        use_pool(None)


@pytest.fixture(scope="session", autouse=True)
def encoder() -> None:
    """Load the built-in model once in this process: that takes two seconds of processor time."""
    make = BuiltIn.__init__

    @cache
    def loaded(*_files: object) -> dict[str, Any]:
        make(model := object.__new__(BuiltIn))
        return {"_encode": model._encode, **vars(model)}

    def init(self: BuiltIn, _threads: int = 1) -> None:
        vars(self).update(loaded(builtin._PACKAGE, *builtin._FILES.items()))

    BuiltIn.__init__ = init  # type: ignore[method-assign]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A fresh home, also set as `CATCHMENT_HOME`."""
    monkeypatch.setenv("CATCHMENT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CATCHMENT_DATABASE_URL", raising=False)
    return Home(tmp_path / "home").make()


@pytest.fixture(scope="session")
def server_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home of `server`; tests share it, so each uses its own names."""
    return Home(tmp_path_factory.mktemp("server") / "home")


@pytest.fixture(scope="session")
def server(server_home: Home) -> Iterator[Running]:
    """The Prefect server and worker, started once by `up --detach`. The worker finds the stand-in flows of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")])))
        patch.delenv("CATCHMENT_DATABASE_URL", raising=False)
        up(server_home, detach=True, announce=lambda line: None)
        state = running(server_home)
        assert state is not None
        yield state
        down(server_home)


@pytest.fixture
def tesseract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """The substitute of Tesseract in a PATH without another one, for this process and those that it starts."""
    programs = Programs(tmp_path / "programs")
    monkeypatch.setenv("PATH", str(programs.folder))
    return programs
