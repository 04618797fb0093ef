"""Adds to the wheel the files of this folder that the program reads. Everything else is in pyproject.toml."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("CHANGELOG.md", "README.md", "docs", "examples/connector", "examples/vault", "prefect.toml", "prefect.yaml")


class BuildWithShippedFiles(build_py):
    """Copies them into `catchment/shipped`, where catchment/runtime/installation.py looks for them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        shipped = Path(self.build_lib, "catchment", "shipped")
        shutil.rmtree(shipped, ignore_errors=True)
        for file in (file for name in SHIPPED for file in (Path(name), *Path(name).rglob("*")) if file.is_file()):
            if not file.match("docs/images/*"):
                (shipped / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, shipped / file)
        # Without hashes, `pip install --constraint` accepts it.
        pins = re.findall(r"^[a-z].*?(?= \\$|$)", Path("requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
        (shipped / "requirements.lock").write_text("\n".join([*pins, ""]), encoding="utf-8")


setup(cmdclass={"build_py": BuildWithShippedFiles})
