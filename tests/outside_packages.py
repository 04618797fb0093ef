"""Packages of others with a small connector, written into a folder as pip would install them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from catchment.runtime import installation
from connectors import connector_class
from flows.flow_form import flow_form

SHELF = '''
import hashlib
from pathlib import Path

from pydantic import Field

from catchment.contracts import Manifest
from catchment.errors import BadInput, Vanished
from catchment.model import Checkpoint, Item, RawContent, Root, Tombstone, Upsert
from catchment.settings import FullPath, Policy, SourceSettings


class ShelfSettings(SourceSettings):
    """Settings of a shelf."""

    identity = ("file",)
    file: FullPath = Field(title="File", description="Full path of a file with a book on each line")
    shout: bool = Field(False, title="Shout", description="In capital letters")

    @classmethod
    def located(cls, location):
        if not Path(location).is_file():
            raise BadInput(f"{location!r}: no such file")
        return {"file": Path(location).absolute()}


class Shelf:
    kind = "shelf"
    manifest = Manifest("Books on a shelf", "a shelf", place="List of books: a file with a book on each line")
    settings = ShelfSettings
    policy = Policy()
    fetch_in_parser = False

    def __init__(self, settings):
        self._file, self._shout = settings.file, settings.shout

    def probe(self):
        return f"{len(self._books())} books"

    def changes(self, known, *, deep=False):
        books, before = self._books(), known.within("")
        yield Root({"": "shelf"})
        for book in before.keys() - books.keys():
            yield Tombstone(book)
        for book, version in books.items():
            if book not in before or before[book].version != version:
                yield Upsert(Item(book, "", version))
        yield Checkpoint()

    def fetch(self, item):
        if item.locator not in self._books():
            raise Vanished("taken from the shelf")
        text = item.locator.upper() if self._shout else item.locator
        return RawContent(text.encode(), f"{item.locator}.txt", title=item.locator)

    def _books(self):
        return {line: hashlib.sha256(line.encode()).hexdigest() for line in self._file.read_text().splitlines() if line}
'''

BITS = '''
from catchment.model import Document


class Bits:
    """Reads files of two bytes, and better than Catchment those with an X."""

    media_type = "application/x-bits"

    def score(self, data, name):
        return 2.0 if data.startswith(b"X") else 0.5 if name.endswith(".bits") else 0.0

    def read(self, data, name):
        return Document(f"{name} has the bits {data[0]:08b} and {data[1]:08b}", "text/plain", "Bits")
'''


@contextmanager
def site_of(folder: Path) -> Iterator[Path]:
    """Let packages in a folder be found; what was found before is forgotten, and afterwards again."""
    caches = (installation.entry_points, installation.installed, connector_class, flow_form)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for cached in caches:
            cached.cache_clear()
        yield folder
    for cached in caches:
        cached.cache_clear()
    sys.modules.pop("shelf_of_books", None)


def install(
    site: Path,
    code: str = SHELF,
    *,
    package: str = "catchment-shelf",
    module: str = "shelf_of_books",
    group: str = "catchment.connectors",
    points: Sequence[str] = ("shelf = shelf_of_books:Shelf",),
    brings: Sequence[str] = (),
) -> None:
    """Write a package with one module, its entry points and, for each name of `brings`, another package."""
    (site / f"{module}.py").write_text(code)
    for name in brings:
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("")
    information = site / f"{package.replace('-', '_')}-1.2.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (information / "entry_points.txt").write_text("\n".join([f"[{group}]", *points, ""]))
    files = [f"{module}.py", *(f"{name}/__init__.py" for name in brings), "../../../bin/shelf"]
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def environment(folder: Path) -> Path:
    """Make an environment for packages beside the one of the tests; return the folder of its commands.

    It has all that ours has. `pip` installs from a folder, without a network.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    commands = folder / "bin"
    offline = "--quiet --offline --no-deps --no-build-isolation"
    for name, words in {
        "pip": f'{sys.executable} -m uv pip "$1" --python {commands}/python {offline} "${{@:2}}"',
        "pytest": f'{commands}/python -m pytest -p no:cacheprovider "$@"',
        "catchment": f'{commands}/python -m catchment "$@"',
    }.items():
        (commands / name).write_text(f"#!/bin/bash\nexec {words}\n")
        (commands / name).chmod(0o755)
    return commands
