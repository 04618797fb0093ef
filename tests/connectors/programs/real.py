"""Programs that others wrote, each in an environment of its own below build/programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from catchment.runtime import atomic_files

PROJECT = Path(__file__).parents[3]
_BUILD = PROJECT / "build" / "programs"
PROGRAMS = {
    "source-faker": ("airbyte-source-faker==7.2.1",),
    "source-file": ("airbyte-source-file==0.5.39",),
    "tap-dbf": ("tap-dbf==0.1.25",),
    "tap-postgres": ("meltanolabs-tap-postgres==0.10.0",),
    "tap-rest-api-msdk": ("tap-rest-api-msdk==1.4.2", "setuptools<81"),
    "tap-github": ("tap-github==4.0.0",),
}


def installed(name: str) -> Path:
    """Return the path of a program, which is installed on first use: its command differs from the name of its package."""
    folder = _BUILD / name
    program = folder / "bin" / name
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_files.alone(folder):
        if not (folder / "complete").exists():
            uv = Path(sys.executable).with_name("uv")
            for arguments in (
                ["venv", "--quiet", "--allow-existing", "--python", sys.executable, folder],
                [
                    "pip",
                    "install",
                    "--quiet",
                    "--compile-bytecode",
                    "--python",
                    folder / "bin" / "python",
                    *PROGRAMS[name],
                ],
            ):
                subprocess.run([uv, *arguments], check=True, timeout=600)
            (folder / "complete").touch()
    return program
