"""The files of this project: those in git, or those that an sdist lists."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def project_files() -> set[str]:
    """Return the paths relative to the project."""
    if (PROJECT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True).stdout
        names = os.fsdecode(listed).split("\0")
    else:
        names = (PROJECT / "catchment.egg-info" / "SOURCES.txt").read_text(encoding="utf-8").splitlines()
    return {name for name in names if (PROJECT / name).is_file() and not is_generated(name)}


def is_generated(name: str) -> bool:
    """Whether only the sdist has this file."""
    return name in ("PKG-INFO", "setup.cfg") or name.startswith("catchment.egg-info/")


def export(folder: Path) -> Path:
    """Copy the files into a new folder, which is returned."""
    for name in project_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, folder / name)
    return folder
