"""Resolve the links of a vault to files, headings and blocks as Obsidian does.

Candidate files are tried in the order of Obsidian 1.13 (`MetadataCache.getLinkpathDest`), established from its documentation
and by observation. The cases are in tests/extract/golden/links.tsv.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence

_PUNCTUATION = re.compile(r"[!\"#$%&()*+,.:;<=>?@^`{|}~/\[\]\\\s]+")


class VaultIndex:
    """An index of a vault's files that resolves links.

    `paths` are the paths of files relative to the vault, separated by `/`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: dict[str, list[str]] = {}
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        self._nearest_root: dict[str, str | None] = {}
        for path in sorted(paths):
            folded = _folded(path)
            self._paths.setdefault(folded, []).append(path)
            self._by_name.setdefault(folded.rpartition("/")[2], []).append((folded, path))
        for files in self._by_name.values():
            files.sort()

    def resolve(self, target: str, from_path: str) -> str | None:
        """Return the path of the file that a link in `from_path` refers to, or None if there is no such file.

        `target` is the link's target without anchor and label, percent-decoded. Case is ignored, and `.md` may be omitted.
        `./` and `../` are relative to the note's folder, `/` to the vault's root. Any other target is first tried as a path
        from the root, then as the end of a path: files below the note's folder take precedence, then shorter paths. Aliases
        are not resolved.
        """
        if not target:
            return from_path if from_path in self._paths.get(_folded(from_path), ()) else None
        folded = _folded(target)
        folder = _folded(from_path).rpartition("/")[0]
        if folded.startswith(("./", "../")):
            return self._at(_joined(folder, folded), target)
        if folded.startswith("/"):
            return self._at(folded[1:], target)
        return self._at(folded, target) or self._ending_with(folded, folder)

    def same_names(self) -> list[tuple[str, ...]]:
        """Return groups of notes with the same name. A link by name alone is ambiguous among them."""
        groups = (files for name, files in sorted(self._by_name.items()) if name.endswith(".md") and len(files) > 1)
        return [tuple(path for _, path in files) for files in groups]

    def _at(self, path: str, target: str) -> str | None:
        """Return the file at this path, else the note. If paths differ only in case, prefer the spelling of the link."""
        for candidate in (path, f"{path}.md"):
            if files := self._paths.get(candidate):
                return next(
                    (file for file in files if file.removesuffix(".md").endswith(target.removesuffix(".md"))), files[0]
                )
        return None

    def _ending_with(self, folded: str, folder: str) -> str | None:
        """Return the best file with a path that ends with `folded`. A file with exactly this name precedes a note."""
        name = folded.rpartition("/")[2]
        for full, files in ((folded, self._by_name.get(name)), (f"{folded}.md", self._by_name.get(f"{name}.md"))):
            if files:
                return self._best(full, _under(files, folder)) or self._best_anywhere(full, files)
        return None

    def _best_anywhere(self, full: str, files: list[tuple[str, str]]) -> str | None:
        if full not in self._nearest_root:
            self._nearest_root[full] = self._best(full, files)
        return self._nearest_root[full]

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
