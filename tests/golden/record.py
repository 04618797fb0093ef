"""The interface for scripts as JSON values: the commands with their options, and the shapes of `--json` output.

`python -m tests.golden` writes them to commands.json and json_shapes.json. The command line runs in this process, through
the entry point of the distribution, so that no module of the product is named here except the one that builds the commands.
"""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
import typer

from console.main import application
from tests.waiting import until

GOLDEN: Final = Path(__file__).parent
HOME: Final = "home-0.1"
COMMANDS: Final = GOLDEN / "commands.json"
SHAPES: Final = GOLDEN / "json_shapes.json"
SERVED_SHAPES: Final = GOLDEN / "json_shapes_with_server.json"

CALLS: Final = (
    "status --json",
    "health --json",
    "doctor --json",
    "sources kinds --json",
    "sources list --json",
    "sources show papers --json",
    "consent list --json",
    "consent show papers --json",
    "consent show letters --json",
    "consent revoke papers --yes --json",
    "plan live --json",
    "prove live --json",
    "prove live --repair --json",
    "undo 9 --dry-run --json",
    "undo 9 --json",
    "search excluder --json",
    "search weir --threads --json",
    "show 21 --json",
    "show 21 --full --json",
    "show 20 --json",
    "related 51 --json",
    "related 20 --json",
    "why bees.md --json",
    "why cut.pdf --json",
    "why large.txt --json",
    "why nowhere.md --json",
    "jobs list --json",
    "jobs list --ndjson",
    "jobs show 22 --json",
    "quarantine list --json",
    "quarantine show 22 --json",
    "quarantine stats --json",
    "deletions list --json",
    "syncs list --json",
    "syncs show 9 --json",
    "slo --json",
    "telemetry show --json",
    "throttle show --json",
    "throttle history --json",
    "vault report vault --json",
    "backup {folder}/copy.db --json",
    "backup --list --json",
    "restore {folder}/kept.db --json",
    "config show --json",
    "ledger check --json",
    "ledger check --deep --json",
    "ledger vacuum --json",
)
"""Every command with `--json` that needs no server, on the home of `unpack`."""

SERVED_CALLS: Final = (
    "sync live --wait --json",
    "status --json",
    "sources next papers --limit 2 --json",
    "sources show papers --json",
    "health --json",
    "sync live --json",
)
"""Commands with more output while the system runs, on the same home."""


@dataclass(frozen=True)
class Result:
    """Exit code and output of one command line."""

    code: int
    out: str
    err: str


def run(home: Path, *arguments: str) -> Result:
    """Run the installed command in this process, with a home folder and without a terminal."""
    [program] = entry_points(group="console_scripts", name="catchment")
    main = program.load()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    threshold = gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATCHMENT_HOME", str(home))
        patch.setenv("PYTHONSAFEPATH", "1")  # as the command sets it; taken back afterwards
        for name in ("CATCHMENT_DATABASE_URL", "CATCHMENT_GITHUB_CLIENT", "COLUMNS", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        for name, stream in (("stdin", io.StringIO()), ("stdout", out), ("stderr", err)):
            patch.setattr(sys, name, stream)
        patch.setattr(sys, "argv", ["catchment", *arguments])
        try:
            code = main()
        finally:
            gc.set_threshold(*threshold)
    out.seek(0)
    err.seek(0)
    return Result(code, out.read(), err.read())


def run_process(home: Path, *arguments: str) -> Result:
    """As `run`, in a separate process: slower, and necessary while the system runs, which writes to the descriptors."""
    program = Path(sys.executable).with_name("catchment")
    environment = {**os.environ, "CATCHMENT_HOME": str(home)}
    environment.pop("CATCHMENT_DATABASE_URL", None)
    done = subprocess.run(
        [program, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return Result(done.returncode, done.stdout, done.stderr)


def unpack(folder: Path) -> Path:
    """Unpack the home of version 0.1 into a folder, add the source `live` with existing files, and return the home."""
    home, live = folder / "home", folder / "live"
    with ZipFile(GOLDEN / f"{HOME}.zip") as archive:
        archive.extractall(home)
    live.mkdir()
    (live / "a.md").write_text("# A\n\nNot synced yet.\n", encoding="utf-8")
    (live / "b.bin").write_bytes(b"\0" * 10)
    for arguments in (
        ("sources", "add", "local_files", str(live), "--name", "live"),
        ("backup", str(folder / "kept.db")),
    ):
        result = run(home, *arguments)
        assert result.code == 0, result
    return home


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """Run the system of a home, started and stopped by the installed command, with the runs of its schedules planned."""
    result = run_process(home, "up", "--detach")
    assert result.code == 0, result
    try:
        until(lambda: run_process(home, "sources", "next", "papers").out, bool)
        yield
    finally:
        result = run_process(home, "down")
        assert result.code == 0, result


def shape_of_output(folder: Path, call: str, run: Callable[..., Result] = run) -> Any:
    """Run a command line on the home in the folder and return the shape of its JSON output.

    While the system runs, `status` is reduced to the source `live`: the other sources may be syncing, or not.
    """
    result = run(folder / "home", *call.format(folder=folder).split())
    assert "unexpected" not in result.err and result.out, result
    if "--ndjson" in call:
        return shape([json.loads(line) for line in result.out.splitlines()])
    output = json.loads(result.out)
    if isinstance(output, dict) and (worker := output.get("worker")):
        output["sources"] = [source for source in output["sources"] if source["name"] == "live"]
        worker["runs"].append("a run")
    return shape(output)


# Shapes


def shape(value: Any) -> Any:
    """Replace every value by the name of its type. A list becomes the shape of its elements; keys that some lack get a `?`."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return {"list of": _merged([shape(item) for item in value])}
    if value is None:
        return "null"
    return {bool: "boolean", int: "number", float: "number", str: "text"}[type(value)]


def _merged(shapes: Sequence[Any]) -> Any:
    """Return one shape for several: equal ones are one, objects are merged key by key, others become alternatives."""
    lists = [one["list of"] for one in shapes if _is_list(one)]
    objects = [one for one in shapes if isinstance(one, dict) and not _is_list(one)]
    alternatives: list[Any] = sorted({one for one in shapes if isinstance(one, str)})
    if lists:
        alternatives.append({"list of": _merged(lists)})
    if objects:
        alternatives.append(_merged_objects(objects))
    return alternatives[0] if len(alternatives) == 1 else alternatives


def _merged_objects(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    keys = {key.removesuffix("?"): None for one in objects for key in one}
    merged = {}
    for key in keys:
        found = [one[name] for one in objects for name in (key, f"{key}?") if name in one]
        always = all(key in one for one in objects)
        merged[key if always else f"{key}?"] = _merged([part for one in found for part in _alternatives(one)])
    return merged


def _alternatives(one: Any) -> list[Any]:
    return one if isinstance(one, list) else [one]


def _is_list(one: Any) -> bool:
    return isinstance(one, dict) and set(one) == {"list of"}


# Commands


def commands() -> dict[str, Any]:
    """Return every command, also those with new words, with its arguments and its visible options by their longest spelling."""
    return {path: _describe(command) for path, command in walk(typer.main.get_command(application()), "catchment")}


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Return a command and all commands below it, by their paths."""
    yield path, command
    for name, part in getattr(command, "commands", {}).items():
        yield from walk(part, f"{path} {name}")


def _describe(command: Any) -> dict[str, Any]:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [_parameter(one) for one in shown if one.param_type_name == "argument"]
    options = {max(one.opts, key=len): _parameter(one) for one in shown if one.param_type_name == "option"}
    return {"arguments": arguments, "options": options}


def _parameter(parameter: Any) -> dict[str, Any]:
    """Describe a parameter; facts that are as usual (optional, one value, no default) are left out."""
    kind, default = parameter.type, getattr(parameter.default, "value", parameter.default)
    facts = {
        "spellings": sorted([*parameter.opts, *parameter.secondary_opts]),
        "type": "flag" if getattr(parameter, "is_flag", False) else kind.name,
        "choices": [str(getattr(choice, "value", choice)) for choice in getattr(kind, "choices", ())],
        "minimum": getattr(kind, "min", None),
        "maximum": getattr(kind, "max", None),
        "required": parameter.required,
        "repeatable": bool(getattr(parameter, "multiple", False)) or parameter.nargs == -1,
        "variable": parameter.envvar,
        # Paths are computed from the place of the program or of the user.
        "default": default if isinstance(default, bool | int | float | str) else None,
    }
    if parameter.param_type_name == "argument" or len(facts["spellings"]) == 1:
        del facts["spellings"]
    return {
        name: fact for name, fact in facts.items() if fact not in ("", []) and fact is not None and fact is not False
    }


# Differences


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Return the differences between two JSON values, one per line."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in {**before, **after}
            for line in _of_key(before, after, key, f"{path} → {key}" if path else key)
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [line for n, (old, new) in enumerate(pairs, 1) for line in differences(old, new, f"{path} → {n}")]
    return (
        [] if before == after and type(before) is type(after) else [f"{path}: was {_json(before)}, is {_json(after)}"]
    )


def _of_key(before: Mapping[str, Any], after: Mapping[str, Any], key: str, path: str) -> list[str]:
    if key not in after:
        return [f"{path}: missing, was {_json(before[key])}"]
    if key not in before:
        return [f"{path}: new, is {_json(after[key])}"]
    return differences(before[key], after[key], path)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
