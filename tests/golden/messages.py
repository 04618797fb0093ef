"""Collect every text that people see: `python -m tests.golden.messages` writes messages.txt.

The file holds the help of each command, the string literals of the production code that read as text (messages, table heads,
state messages, log lines, descriptions) and the descriptions in prefect.yaml. Read it to judge the wording as a whole.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer

from console.main import application
from tests.golden.record import walk

PROJECT: Final = Path(__file__).parents[2]
MESSAGES: Final = Path(__file__).parent / "messages.txt"

_FOLDERS: Final = ("assistant", "console", "deployments", "flows", "tasks", "connectors", "catchment")
_DATA: Final = (
    "catchment/content/extract/blocks.py",
    "catchment/content/extract/code.py",
    "catchment/content/normalize/formats.py",
    "catchment/content/normalize/html/__init__.py",
    "catchment/content/normalize/language_detection.py",
    "catchment/content/normalize/mail/dates.py",
    "catchment/search/stop_words.py",
    "catchment/content/normalize/html/nesting.py",
    "catchment/content/passwords.py",
    "catchment/content/secret_rules.py",
    "catchment/ledger/library/filters.py",
)
"""Modules whose strings are data: word lists, queries, names of elements."""
_WORDS: Final = re.compile(r"[A-Za-z}´'`)][,;:]? [A-Za-z{`'(]")
_CODE: Final = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|FROM|WHERE|PRAGMA|VALUES|ORDER BY|JOIN|EXISTS|UNION|BEGIN|SET LOCAL)\b"
    r"|\b(NULL|CAST|LIKE|EXCEPT|ESCAPE|OVER|VACUUM INTO)\b|\b(AND|AS|NOT) [a-z(:{]|\|\| '|tsvector"
    r"|\\[sdwbB]|\(\?[:P<!=]|\[\^|^\s*(AND|OR|ON|AS|IN|LIMIT|SET) |-//|<[a-z]+[ >/]"
)


def collect() -> str:
    """Return the texts of all modules, one line each, grouped by file."""
    sections = []
    for folder in _FOLDERS:
        for file in sorted((PROJECT / folder).rglob("*.py")):
            name = str(file.relative_to(PROJECT))
            texts = [] if name in _DATA else list(dict.fromkeys(_texts(ast.parse(file.read_text(encoding="utf-8")))))
            if texts:
                sections.append("\n".join([f"== {name}", *texts]))
    described = re.findall(r"^\s*(?:- )?description: (.+)$", (PROJECT / "prefect.yaml").read_text(), re.MULTILINE)
    return "\n\n".join([*_help(), *sections, "\n".join(["== prefect.yaml", *described])]) + "\n"


def _help() -> Iterator[str]:
    """Return the help text of each listed command with the texts of its parameters."""
    for path, command in walk(typer.main.get_command(application()), "catchment"):
        if command.hidden:
            continue
        parameters = [f"{max(one.opts, key=len)}: {one.help}" for one in command.params]
        yield "\n".join([f"== {path} --help", inspect.cleandoc(command.help), *parameters])


def _texts(tree: ast.AST) -> Iterator[str]:
    """Return the texts of a module in order, without docstrings. Expressions in f-strings become `{…}`."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [
        (node.lineno, node.col_offset, _text(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in inside
    ]
    for _, _, text in sorted(found):
        line = " ".join(text.split())
        if _WORDS.search(line) and not _CODE.search(line):
            yield line


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(
        _text(part) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
        for part in node.values
        if isinstance(part, ast.Constant | ast.FormattedValue)
    )


if __name__ == "__main__":
    MESSAGES.write_text(collect(), encoding="utf-8")
    sys.exit(0)
