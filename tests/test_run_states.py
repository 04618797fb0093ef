"""The table of the states of a run: the same in code and in docs/architecture.md, and used by modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tasks import run_states
from tasks.run_states import RunState

ROOT = Path(__file__).parent.parent
_TABLE = "tasks/run_states.py"
_STATES = {name: state for name, state in vars(run_states).items() if isinstance(state, RunState)}
_FOLDERS = ("tasks", "flows", "deployments", "console", "web", "assistant")


@pytest.fixture(scope="module")
def code() -> dict[str, ast.Module]:
    """The syntax trees of all modules that may use a state, by path."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for folder in _FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def test_document_shows_the_table_of_run_states() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("\n## States of a run\n")[2].partition("\n## ")[0]

    rows = re.findall(r"^\| `(.+)` \| (\w+) \| (.+) \|$", section, re.MULTILINE)

    assert rows == [(state.name, state.type, state.meaning) for state in _STATES.values()]


def test_each_run_state_is_used(code: dict[str, ast.Module]) -> None:
    assert set().union(*map(_imported, code.values())) >= _STATES.keys()


def test_only_the_table_spells_the_names_of_run_states(code: dict[str, ast.Module]) -> None:
    names = {state.name for state in _STATES.values()}
    spelled = {
        f"{path}:{node.lineno}"
        for path, tree in code.items()
        for node in ast.walk(tree)
        if path != _TABLE and isinstance(node, ast.Constant) and node.value in names
    }
    assert spelled == set()


def _imported(tree: ast.AST) -> set[str]:
    return {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tasks.run_states"
        for name in node.names
    }
