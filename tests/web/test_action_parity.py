"""The command line has each function of `deployments/actions/` that takes an actor; so have the page and the JSON interface.

The page and the interface lack only the functions that the package's table names, with a reason.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import deployments.actions
from web.action_table import ACTIONS

PROJECT = Path(__file__).parents[2]
_CALLED = re.compile(r'(?:/actions/|")([a-z]+\.[a-z_]+)"')


COMMANDS_ONLY = dict(re.findall(r"^    (\w+\.\w+) +(\S.*)$", deployments.actions.__doc__ or "", re.MULTILINE))
"""The actions that only commands offer, with the reason."""


def functions() -> Iterator[str]:
    """Yield the actions by name and that of their module, or of its folder in `deployments/actions/`."""
    for module_info in pkgutil.walk_packages(deployments.actions.__path__, "deployments.actions."):
        module, place = import_module(module_info.name), module_info.name.split(".")[2]
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_action = {"desk", "actor"} <= inspect.signature(function).parameters.keys()
            if function.__module__ == module.__name__ and is_action and not name.startswith("_"):
                yield f"{place}.{name}"


def named_in_console() -> set[str]:
    """Return `module.name` for each use of a module of `deployments.actions` in the command line."""
    names = set()
    for file in (PROJECT / "console").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        modules = {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "deployments.actions"
            for name in node.names
        }
        names |= {
            f"{node.value.id}.{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
        }
    return names


def named_in_forms() -> set[str]:
    """Return the actions to which the templates post, in `action=` or by a macro."""
    return {
        name for file in (PROJECT / "web" / "templates").glob("*.html") for name in _CALLED.findall(file.read_text())
    }


def test_there_are_actions() -> None:
    assert len(list(functions())) >= 20


def test_page_and_interface_have_each_action_and_no_other() -> None:
    assert set(ACTIONS) == set(functions()) - set(COMMANDS_ONLY)


def test_actions_without_a_page_exist_and_have_a_reason() -> None:
    assert COMMANDS_ONLY
    assert set(COMMANDS_ONLY) <= set(functions())
    assert all(COMMANDS_ONLY.values())


def test_each_action_has_a_form_on_the_page() -> None:
    assert set(functions()) - named_in_forms() == set(COMMANDS_ONLY)


def test_each_action_has_a_command() -> None:
    assert set(functions()) - named_in_console() == set()
