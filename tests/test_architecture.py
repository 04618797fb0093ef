"""Who may import whom: the rules of docs/architecture.md, read from the imports themselves."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"catchment", "connectors", "tasks", "flows", "deployments", "console", "benchmarks", "tests"}
MAY_IMPORT = {
    "catchment": {"catchment"},
    "connectors": {
        "connectors",
        "catchment.model",
        "catchment.errors",
        "catchment.contracts",
        "catchment.pacing",
        "catchment.runtime.secret_references",
        "catchment.content.normalize.mail.attachments",
        "catchment.settings",
    },
    "tasks": {"tasks", "catchment", "connectors"},
    "flows": {"flows", "tasks", "connectors", "catchment.settings", "catchment.model", "catchment.errors"},
    "deployments": {"deployments", "flows", "tasks", "connectors", "catchment"},
    "console": {"console", "deployments", "flows", "tasks", "connectors", "catchment"},
}
ONE_HOME = {
    "sqlalchemy": ("catchment/ledger/",),
    "alembic": ("catchment/ledger/",),
    "watchdog": ("deployments/",),
    "prefect_shell": ("tasks/",),
    "psutil": ("catchment/status.py", "catchment/runtime/process.py", "deployments/"),
    "prefect": ("tasks/", "flows/", "deployments/"),
}


def _modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}:{node.lineno}: imports are absolute"
            base = node.module or ""
            yield from ((f"{base}.{name.name}", node.lineno) for name in node.names)


def _allowed(name: str, allowed: set[str]) -> bool:
    return any(name == a or name.startswith(f"{a}.") for a in allowed)


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_a_folder_imports_only_what_it_may(folder: str) -> None:
    modules = _modules(folder)
    assert modules
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules
        for name, line in _imports(path)
        if name.split(".")[0] in OURS and not _allowed(name, MAY_IMPORT[folder])
    ]
    assert wrong == []


@pytest.mark.parametrize("library", sorted(ONE_HOME))
def test_a_library_has_one_home(library: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in MAY_IMPORT
        for path in _modules(folder)
        for name, line in _imports(path)
        if name.split(".")[0] == library and not str(path.relative_to(ROOT)).startswith(ONE_HOME[library])
    ]
    assert wrong == []


def test_every_package_is_listed_in_the_distribution() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    there = {str(p.parent.relative_to(ROOT)).replace("/", ".") for folder in MAY_IMPORT for p in _modules(folder)}
    assert listed == there


def test_built_distribution_contains_the_data_files(tmp_path: Path) -> None:
    for folder in MAY_IMPORT:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "README.md", tmp_path)
    build = "from setuptools import setup; setup()"
    subprocess.run([sys.executable, "-c", build, "-q", "build_py", "-d", "built"], cwd=tmp_path, check=True)
    data = {
        path.relative_to(tmp_path)
        for folder in MAY_IMPORT
        for path in (tmp_path / folder).rglob("*")
        if path.is_file() and path.suffix != ".py"
    }
    assert data
    assert {path for path in data if not (tmp_path / "built" / path).exists()} == set()


def test_no_pattern_repeats_a_group_possessively() -> None:
    """`(…)*+` matches wrongly before Python 3.11.5, which Debian 12 does not have; `(?>(…)*)` says the same."""
    escaped_or_class = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
    possessive = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    assert possessive.search(escaped_or_class.sub("x", r"\[((?:[^)]|\))*+)"))
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in MAY_IMPORT
        for path in _modules(folder)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and possessive.search(escaped_or_class.sub("x", node.value))
    ]
    assert wrong == []
