"""Catchment without its clone: installed as in docs/install.md, in an empty environment and without a network."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import COMMAND, Person, upright
from tests.project_files import export

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_PAGE = "docs/install.md"
_LOOPBACK_UP = "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 1))"
_WITHOUT_NETWORK = (
    *("unshare", "--user", "--map-root-user", "--net", "sh", "-c"),
    f'{shlex.quote(sys.executable)} -c {shlex.quote(_LOOPBACK_UP)} && exec "$@"',
    "sh",
)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clean copy of the project that uses this environment for `make`."""
    folder = export(tmp_path_factory.mktemp("clone") / "catchment")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture(scope="module")
def person(clone: Path) -> Person:
    """A user with an empty home folder and the caches of this machine."""
    programs = clone.parent / "programs"
    programs.mkdir()
    # The environment must not be made anew for the copy.
    for name, words in {"make": f"{shutil.which('make')} -o .venv/.ready", "python3": sys._base_executable}.items():  # type: ignore[attr-defined]
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o700)
    caches = {
        "UV_CACHE_DIR": [COMMAND.with_name("uv"), "cache", "dir"],
        "PIP_CACHE_DIR": [sys.executable, "-m", "pip", "cache", "dir"],
    }
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
    kept |= {name: subprocess.check_output(words, text=True).strip() for name, words in caches.items()}
    path = os.pathsep.join([str(programs), str(COMMAND.parent), os.environ["PATH"]])
    home = clone.parent / "home"
    return Person(home / ".cache" / "catchment" / "demo", variables={**kept, "HOME": str(home), "PATH": path})


@pytest.fixture(scope="module")
def with_wheel(clone: Path, person: Person) -> Person:
    """The user after the page's commands that need a network."""
    assert document.carry_out(clone / _PAGE, person.environment, clone, under="Install it without a clone") == 3
    return person


@pytest.fixture(scope="module")
def installed(clone: Path, with_wheel: Person) -> Iterator[Person]:
    """The user after the page's other commands, without a network; the demo is among them."""
    environment = {name: value for name, value in with_wheel.environment.items() if name != "CATCHMENT_HOME"}
    under = "Install it without a network"
    assert document.carry_out(clone / _PAGE, environment, clone, under=under, before=_WITHOUT_NETWORK) == 3
    # The copy is not used from here on.
    shutil.rmtree(clone)
    yield replace(with_wheel, command=Path(with_wheel.variables["HOME"]) / "catchment" / "bin" / "catchment")


def test_wheel_is_the_same_when_it_is_built_again(clone: Path, with_wheel: Person) -> None:
    (wheel,) = (clone / "dist").glob("*.whl")
    first = sha256(wheel.read_bytes()).hexdigest()
    subprocess.run(["make", "wheel"], cwd=clone, env=with_wheel.environment, check=True)
    assert sha256(wheel.read_bytes()).hexdigest() == first


def test_installed_wheel_has_what_the_demo_and_every_home_needs(installed: Person) -> None:
    with upright(installed) as person:
        person("sync", "vault", "--wait").ok()
        assert len(person.documents("vault")) > 80
        assert [hit["item"] for hit in person.hits("rating curve", "vault")] != []
        assert {"upkeep", "embed"} <= {each["name"] for each in person.found("deployments", {})}
        assert person("web", "--no-browser").ok().out.startswith("http://127.0.0.1:")
    assert installed.left() == []


def test_service_unit_starts_the_installed_program(installed: Person) -> None:
    unit = installed("service", "install", "--print").ok().out
    (command,) = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")]
    words = shlex.split(command)
    assert Path(words[0]).parent == installed.command.parent
    done = subprocess.run([*words[:-1], "--version"], cwd="/", env={}, capture_output=True, text=True, check=True)
    assert done.stdout == installed("--version").ok().out


def test_options_that_are_not_installed_name_their_extra(installed: Person, tmp_path: Path) -> None:
    installed("export", tmp_path / "all.parquet").refused(2, 'pip install "catchment[parquet]"')
    postgres = replace(
        installed, variables={**installed.variables, "CATCHMENT_DATABASE_URL": "postgresql://127.0.0.1/x"}
    )
    postgres("status").refused(2, "pip install 'catchment[postgres]'")
