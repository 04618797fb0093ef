"""The example packages, as an installer would register them."""

from __future__ import annotations

import tomllib
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("catchment-*/pyproject.toml"))


def register(site: Path) -> None:
    """Write the entry points of all example packages into a folder on the path. Their modules are on pytest's path."""
    for folder in FOLDERS:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        information = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        groups = project["entry-points"].items()
        lines = [
            line for group, points in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))
        ]
        (information / "entry_points.txt").write_text("\n".join([*lines, ""]))
        (information / "RECORD").write_text(f"{folder.name.replace('-', '_')}.py,,\n")
