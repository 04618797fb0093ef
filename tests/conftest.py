"""What tests of several folders share: a fresh home, and one real server for the whole session."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from catchment.settings import Home
from deployments.supervisor.supervisor import Running, down, running, up
from tests.prefect_tables import lay_tables

# A shell's background job ignores Ctrl-C and hands that down; some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

_PROJECT = Path(__file__).parents[1]
_SHARED = "tests/acceptance/shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=1, help="how many times as many faults as in an ordinary run")


def pytest_configure(config: pytest.Config) -> None:
    """Have an ordinary run draw the same examples each time, so that no chance decides; a longer one draws others."""
    settings.register_profile("catchment", derandomize=config.getoption("times") == 1, deadline=None)
    settings.load_profile("catchment")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files without a test of the suite that is asked for: each process of it would import them all."""
    if collection_path.match("test_*.py") and config.option.markexpr:
        return is_of_another_suite(collection_path.read_text(), config.option.markexpr) or None
    return None


def is_of_another_suite(text: str, markers: str) -> bool:
    """Whether the words of a file of tests rule out that `markers`, all wanted ("a or b") or all not, selects one of them."""
    names = "|".join(set(re.findall(r"\w+", markers)) - {"and", "or", "not"})
    if re.fullmatch(r"not \w+( and not \w+)*", markers):
        return bool(re.search(rf"^pytestmark = .*\bmark\.({names})\b", text, re.MULTILINE))
    return bool(re.fullmatch(r"\w+( or \w+)*", markers)) and not re.search(rf"\bmark\.({names})\b", text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: at the end one process would wait for the others."""
    slow = {item.path for item in items if item.get_closest_marker("server") or item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Let each file be done by one process, and so the folder whose files share a server."""
    return _ByServer(config, log)


class _ByServer(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        folder = str(Path(file).parent)
        return folder if folder == _SHARED else file


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many processes were killed, where any were."""
    passed = (report.user_properties for report in terminalreporter.stats.get("passed", ()))
    kills = sum(int(str(value)) for properties in passed for name, value in properties if name == "kills")
    if kills:
        terminalreporter.write_line(f"{kills} processes were killed, and all was well afterwards")


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> int:
    """What the number of random faults is multiplied by."""
    return int(request.config.getoption("times"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of this test's own, which is also the one that `CATCHMENT_HOME` names."""
    monkeypatch.setenv("CATCHMENT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CATCHMENT_DATABASE_URL", raising=False)
    return Home(tmp_path / "home").make()


@pytest.fixture(scope="session")
def server_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home of `server`; tests share it, so each uses names of its own."""
    home = Home(tmp_path_factory.mktemp("server") / "home")
    lay_tables(home.path)
    return home


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
