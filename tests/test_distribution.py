"""The sdist and the wheel have the right files, and the program notices packages of other programs in place of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from catchment import __version__
from catchment.runtime import installation
from tests.outside_packages import install
from tests.project_files import PROJECT, export, is_generated, project_files

_BUILD = "import sys; from setuptools import build_meta as b; to = sys.argv[1]; b.build_sdist(to); b.build_wheel(to)"
_FOLDERS = ("assistant", "catchment", "connectors", "console", "deployments", "flows", "sinks", "tasks", "web")
_NOT_CODE = {
    "catchment/py.typed",
    "catchment/ledger/admin/migrations/versions/0001.sql",
    "catchment/telemetry/runbooks.md",
    "catchment/content/token_formats.txt",
    "catchment/content/extract/definitions/*.scm",
    "catchment/content/normalize/media_types.txt",
    "catchment/search/stop_words.txt",
    "connectors/contract/quality.toml",
    "deployments/server/fresh_prefect.sql.gz",
    "deployments/observability/",
    "deployments/scale/",
    "deployments/scale/systemd/",
    "flows/*.json",
    "web/static/",
    "web/templates/",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel of a clean copy of the project."""
    there = tmp_path_factory.mktemp("built")
    source = export(tmp_path_factory.mktemp("export") / "catchment")
    subprocess.run([sys.executable, "-c", _BUILD, there], cwd=source, capture_output=True, check=True)
    return there


@pytest.fixture(scope="module")
def in_wheel(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture
def site(built: Path, tmp_path: Path) -> Path:
    """Return a folder like `site-packages`, with the wheel."""
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    return tmp_path / "site"


def run(folders: list[Path], *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "XDG_CACHE_HOME": "/somewhere"}
    words = [sys.executable, "-P", *arguments]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_sdist_has_every_file_of_the_repository_and_no_other(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        names = {member.name.partition("/")[2] for member in opened if member.isfile()}
    assert {name for name in names if not is_generated(name)} == project_files(), "see MANIFEST.in"


def test_wheel_has_the_code_and_nothing_that_should_not_be_there(in_wheel: set[str]) -> None:
    tracked = project_files()
    code = {name for name in tracked if name.startswith(tuple(f"{folder}/" for folder in _FOLDERS))}
    information = f"catchment-{__version__}.dist-info/"
    assert {name for name in in_wheel if not name.startswith((information, "catchment/shipped/"))} == code
    other = {name for name in code if not name.endswith(".py")}
    assert {name for name in other if not any(Path(name).match(f"{rule}*") for rule in _NOT_CODE)} == set()
    assert {name.removeprefix(information) for name in in_wheel if name.startswith(information)} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "top_level.txt",
    }


def test_wheel_has_examples_documents_and_deployments(in_wheel: set[str]) -> None:
    shipped = {name.removeprefix("catchment/shipped/") for name in in_wheel if name.startswith("catchment/shipped/")}
    documents = {name for name in project_files() if name.startswith("docs/") and "docs/images/" not in name}
    examples = {name for name in project_files() if name.startswith(("examples/vault/", "examples/connector/"))}
    others = {"CHANGELOG.md", "README.md", "prefect.toml", "prefect.yaml", "requirements.lock"}
    assert shipped == documents | examples | others


def test_wheel_describes_itself(built: Path, in_wheel: set[str]) -> None:
    (wheel,) = built.glob("*.whl")
    metadata = zipfile.ZipFile(wheel).read(f"catchment-{__version__}.dist-info/METADATA").decode()
    head = metadata.partition("\n\n")[0].splitlines()
    assert {f"Version: {__version__}", "License-Expression: MIT", "Author: Catchment contributors"} <= set(head)
    plain = [line for line in head if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    optional = ("pytest", "ruff", "mypy", "playwright", "uv>", "duckdb", "neo4j", "opentelemetry", "psycopg")
    assert [line for line in plain if line.removeprefix("Requires-Dist: ").startswith(optional)] == []


def test_lock_in_the_wheel_is_a_constraints_file(site: Path) -> None:
    lines = (site / "catchment" / "shipped" / "requirements.lock").read_text().splitlines()
    assert f"prefect=={_locked('prefect')}" in lines
    assert [line for line in lines if "==" not in line or line.endswith("\\")] == []


def _locked(name: str) -> str:
    lines = (PROJECT / "requirements.lock").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}==")).removeprefix(f"{name}==").split()[0]


def test_version_names_python_and_in_a_clone_the_commit(site: Path) -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    said = run([site], "-m", "catchment", "--version")
    assert (said.stdout, said.returncode) == (f"catchment {__version__} (Python {python})\n", 0), said.stderr
    (site / ".git").mkdir()
    assert run([site], "-m", "catchment", "--version").stdout == said.stdout, "not a repository of ours"


def test_version_of_a_clone_names_its_commit(site: Path) -> None:
    git = ["git", "-C", str(site), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert f"(commit {commit.strip()}, Python " in run([site], "-m", "catchment", "--version").stdout


def test_demo_of_a_wheel_keeps_its_state_in_the_cache_folder(site: Path) -> None:
    said = run([site], "-c", "from console.start_stop import demo; print(demo._state(), demo._EXAMPLES[1].folder)")
    assert said.stdout.split() == ["/somewhere/catchment/demo", str(site / "catchment" / "shipped")]


def test_wheel_starts_and_tests_a_package(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([site], "-m", "catchment", "connector", "new", "quotes").returncode == 0
    folder = tmp_path / "quotes"
    code, points = (folder / "catchment_quotes.py").read_text(), ("quotes = catchment_quotes:QuotesSource",)
    install(folder, code, package="catchment-quotes", module="catchment_quotes", points=points)
    said = run(
        [site, folder],
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-W",
        "error::pytest.PytestAssertRewriteWarning",
        "quotes",
    )
    assert said.returncode == 0, said.stdout
    assert " passed, 3 skipped" in said.stdout
    assert str(site) in run([site], "-m", "pytest", "--trace-config", "--collect-only", "quotes").stdout


@pytest.mark.parametrize("name", installation._PACKAGES)
def test_package_of_another_program_is_named_with_the_remedy(site: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "other" / name).mkdir(parents=True)
    (tmp_path / "other" / name / "__init__.py").write_text("")
    said = run([tmp_path / "other", site], "-m", "catchment", "status")
    assert (said.returncode, len(said.stderr.splitlines())) == (1, 1), said.stderr
    assert f"package {name}: belongs to another program ({tmp_path / 'other'}" in said.stderr
    assert "install Catchment into an environment of its own" in said.stderr


def test_package_that_another_program_was_installed_over_is_noticed(site: Path) -> None:
    (site / "tasks" / "__init__.py").write_text('"""Another program."""\n')
    assert "package tasks: belongs to another program" in run([site], "-m", "catchment", "--version").stderr
    (site / "tasks" / "__init__.py").unlink()
    assert "package tasks: was removed by another program" in run([site], "-m", "catchment", "--version").stderr


def test_every_package_is_watched_for_clashes() -> None:
    found = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.rstrip("*") for pattern in found} == {"catchment", *installation._PACKAGES}
    assert installation.clash() is None
