"""Resolve the links of a vault to files, headings and blocks as Obsidian does.

Candidate files are tried in the order of Obsidian 1.13 (`MetadataCache.getLinkpathDest`), established from its documentation
and by observation. The cases are in tests/extract/golden/links.tsv.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from catchment.model import PARTS, outer_files

_PUNCTUATION = re.compile(r"[!\"#$%&()*+,.:;<=>?@^`{|}~/\[\]\\\s]+")


class VaultIndex:
    """An index of a vault's files that resolves links.

    `paths` are the paths of files relative to the vault, separated by `/`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: dict[str, list[str]] = {}
        # By the archive, and the name.
        self._by_name: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._nearest_root: dict[tuple[str, str], str | None] = {}
        for path in sorted(paths):
            folded = _folded(path)
            self._paths.setdefault(folded, []).append(path)
            key = folded.rpartition(PARTS)[0], folded.rpartition("/")[2]
            self._by_name.setdefault(key, []).append((folded, path))
        for files in self._by_name.values():
            files.sort()

    def resolve(self, target: str, from_path: str) -> str | None:
        """Return the path of the file that a link in `from_path` refers to, or None if there is no such file.

        `target` is the link's target without anchor and label, percent-decoded. Case is ignored, and `.md` may be omitted.
        `./` and `../` are relative to the note's folder, `/` to the vault's root. Any other target is first tried as a path
        from the root, then as the end of a path: files below the note's folder take precedence, then shorter paths. Aliases
        are not resolved. An archive is a vault of its own, whose files are tried first for links in them.
        """
        if not target:
            return from_path if from_path in self._paths.get(_folded(from_path), ()) else None
        archive, _, inside = target.rpartition(PARTS)
        if archive and (outer := self.resolve(archive, from_path)):
            return self._at(f"{_folded(outer)}{PARTS}{_folded(inside)}", target)
        folded = _folded(target)
        folder = _folded(from_path).rpartition("/")[0]
        if folded.startswith(("./", "../")):
            return self._at(_joined(folder, folded), target)
        for archive in (*reversed(outer_files(f"{folder}/")), ""):
            path = f"{archive}{PARTS if archive else ''}{folded.removeprefix('/')}"
            match = self._at(path, target)
            if match is None and not folded.startswith("/"):
                match = self._ending_with(folded, folder, archive)
            if match is not None:
                return match
        return None

    def same_names(self) -> list[tuple[str, ...]]:
        """Return groups of notes with the same name. A link by name alone is ambiguous among them."""
        groups = (
            files for (_, name), files in sorted(self._by_name.items()) if name.endswith(".md") and len(files) > 1
        )
        return [tuple(path for _, path in files) for files in groups]

    def _at(self, path: str, target: str) -> str | None:
        """Return the file at this path, else the note. If paths differ only in case, prefer the spelling of the link."""
        for candidate in (path, f"{path}.md"):
            if files := self._paths.get(candidate):
                return next(
                    (file for file in files if file.removesuffix(".md").endswith(target.removesuffix(".md"))), files[0]
                )
        return None

    def _ending_with(self, folded: str, folder: str, archive: str) -> str | None:
        """Return the best file with a path that ends with `folded`. A file with exactly this name precedes a note."""
        name = folded.rpartition("/")[2]
        for full, key in ((folded, (archive, name)), (f"{folded}.md", (archive, f"{name}.md"))):
            if files := self._by_name.get(key):
                return self._best(full, _under(files, folder)) or self._best_anywhere(full, key)
        return None

    def _best_anywhere(self, full: str, key: tuple[str, str]) -> str | None:
        place = key[0], full
        if place not in self._nearest_root:
            self._nearest_root[place] = self._best(full, self._by_name[key])
        return self._nearest_root[place]

    @staticmethod
    def _best(full: str, files: list[tuple[str, str]]) -> str | None:
        """Return the shortest path that ends with `full`; of equally long paths, the first in alphabetical order."""
        matching = (path for folded, path in files if f"/{folded}".endswith(f"/{full}"))
        return min(matching, key=lambda path: (len(path), path), default=None)


def _under(files: list[tuple[str, str]], folder: str) -> list[tuple[str, str]]:
    """Return the files below a folder, or none for the root. `files` is sorted."""
    after = chr(ord("/") + 1)
    return files[bisect_left(files, (f"{folder}/",)) : bisect_left(files, (f"{folder}{after}",))] if folder else []


def anchor_exists(anchor: str, headings: Sequence[tuple[int, str]], blocks: Iterable[str]) -> bool:
    """Return whether a note has the heading or block that an anchor names.

    An anchor is a heading, a path of nested headings (`Heading#Sub`) or a block (`^id`). `headings` are levels and texts in
    the order of the note. As in Obsidian, case and punctuation are ignored.
    """
    if not anchor:
        return True
    if anchor.startswith("^"):
        return anchor[1:].strip().lower() in {block.lower() for block in blocks}
    chain = [_words(part) for part in anchor.split("#") if part.strip()]
    above: list[tuple[int, str]] = []
    for level, text in headings:
        above = [(outer, words) for outer, words in above if outer < level] + [(level, _words(text))]
        if chain and above[-1][1] == chain[-1] and _in_order(chain[:-1], [words for _, words in above[:-1]]):
            return True
    return not chain


def _words(heading: str) -> str:
    return _PUNCTUATION.sub(" ", unicodedata.normalize("NFC", heading)).strip().lower()


def _in_order(chain: list[str], above: list[str]) -> bool:
    rest = iter(above)
    return all(part in rest for part in chain)


def _folded(path: str) -> str:
    """Return the path as Obsidian compares it: in NFC, with plain spaces, in lower case."""
    if not path.isascii():
        path = unicodedata.normalize("NFC", path.replace("\xa0", " "))
    return path.lower()


def _joined(folder: str, relative: str) -> str:
    """Join a folder and a relative path; `..` at the root stays at the root."""
    parts = folder.split("/") if folder else []
    for part in relative.split("/"):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
