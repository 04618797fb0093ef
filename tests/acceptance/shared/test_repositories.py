"""Repository files end to end: a local clone, and a mirror of a repository at a host."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

import pytest

from tests.acceptance.person import Person
from tests.connectors.github.git_host import GitHost, hosting
from tests.connectors.github.repository import Repository

pytestmark = pytest.mark.acceptance

_SECRET = "ghp_" + "".join(random.Random(3).choices(string.ascii_letters + string.digits, k=36))
_TOOL = f'''"""Reads the gauge at the weir."""

TOKEN = "{_SECRET}"


class Gauge:
    def level(self) -> float:
        return 2.0
'''


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with a program, a text and a vendored library."""
    work = Repository.made(tmp_path_factory.mktemp("repositories") / "weir")
    work.put("src/gauge.py", _TOOL)
    work.put("README.md", "# The weir\n\nHow the sluice is opened.\n" * 5)
    work.put("vendor/lib.js", "function copied() {}\n")
    work.commit()
    return work


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, work: Repository) -> Iterator[GitHost]:
    with hosting(tmp_path_factory.mktemp("git-host")) as host:
        host.publish("ada/weir", work)
        yield host


@pytest.fixture(scope="module")
def copied(person: Person, host: GitHost) -> str:
    """Return the name of the source for the hosted repository, which was synced."""
    location = f"{host.address}/ada/weir"
    person("add", "github", location, "--name", "copied", "--set", "include=[code]", "--consent").ok()
    assert person.sync("copied")["succeeded"] == 2
    return "copied"


def test_local_clone_is_read_without_network_access(person: Person, work: Repository) -> None:
    said = person("add", "github", work.path, "--name", "clone").ok()
    assert "weir: clone at " in said.out
    figures = person.sync("clone")
    assert (figures["succeeded"], figures["skipped"], figures["masked"]) == (2, 1, 1)
    assert {hit["item"] for hit in person.hits("gauge", "clone")} >= {"weir:src/gauge.py"}
    assert "vendored" in person("why", "weir:vendor/lib.js").ok().out
    assert person.sync("clone")["listed"] == 0
    assert not (work.path / ".git/index.lock").exists()


def test_mirror_of_a_repository_is_fetched_and_updated(
    person: Person, copied: str, host: GitHost, work: Repository
) -> None:
    before = person("show", "ada/weir:README.md", "--json").ok().json["document"]
    host.fetches()
    assert person.sync(copied)["listed"] == 0
    assert host.fetches() == 0
    work.git("mv", "README.md", "READ.md")
    work.put("READ.md", "# The weir\n\nHow the sluice is opened.\n" * 5 + "And shut again.\n")
    work.commit()
    figures = person.sync(copied)
    assert (figures["moved"], figures["succeeded"], figures["deleted"]) == (1, 1, 0)
    assert host.fetches() == 1
    (after,) = person.hits("shut", copied)
    assert (after["item"], after["document"]) == ("ada/weir:READ.md", before)


def test_secret_in_a_file_is_never_stored(person: Person, copied: str) -> None:
    assert person.hits(_SECRET) == []
    shown = person("show", "ada/weir:src/gauge.py").ok().out
    assert "«GitHub token»" in shown
    # The mirrors contain everything that their hosts serve, secrets included.
    assert [path for path, held in person.files() if path.parts[0] != "copies" and _SECRET.encode() in held] == []


def test_logs_contain_neither_mirror_path_nor_git_arguments(person: Person, copied: str, host: GitHost) -> None:
    logs = "".join(path.read_text(errors="replace") for path in (person.home / "logs").rglob("*") if path.is_file())
    assert "triggered with 1 commands" in logs
    for told in (str(person.home / "copies"), "ada/weir", host.address, "gauge.py"):
        assert told not in logs


def test_mirror_is_removed_with_its_source(person: Person, host: GitHost) -> None:
    location = f"{host.address}/ada/weir"
    person("add", "github", location, "--name", "short", "--set", "include=[code]", "--consent").ok()
    person.sync("short")
    assert (person.home / "copies/short").is_dir()
    person("sources", "remove", "short", "--yes").ok()
    assert not (person.home / "copies/short").exists()
