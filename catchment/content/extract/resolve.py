"""Where links lead in a vault: Obsidian's way from what is written to a file, a heading, or a block.

The order in which files are tried is that of Obsidian 1.13 (`MetadataCache.getLinkpathDest`), as its documentation and
observations of it tell; the cases are in tests/extract/golden/links.tsv.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence

_PUNCTUATION = re.compile(r"[!\"#$%&()*+,.:;<=>?@^`{|}~/\[\]\\\s]+")


class VaultIndex:
    """All files of a vault, ready to tell which of them a link leads to.

    `paths` are relative to the vault, with `/`; folders are not among them.
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
        """The file that `target`, written in `from_path`, leads to; None where it leads nowhere.

        `target` is a link's target: no anchor, no label, percent-encoding undone. Upper and lower case are the same; a note's
        `.md` may be left out. `./` and `../` start at the note's folder, `/` at the vault's root. Otherwise a path from the
        root comes first; then files whose path ends with the target: those under the note's own folder before others, the
        shorter path before the longer. An alias is no target.
        """
        if not target:
            return from_path if from_path in self._paths.get(_folded(from_path), ()) else None
        wanted = _folded(target)
        folder = _folded(from_path).rpartition("/")[0]
        if wanted.startswith(("./", "../")):
            return self._at(_joined(folder, wanted), target)
        if wanted.startswith("/"):
            return self._at(wanted[1:], target)
        return self._at(wanted, target) or self._ending_with(wanted, folder)

    def same_names(self) -> list[tuple[str, ...]]:
        """The groups of notes that share a name, so that the name alone does not tell which is meant."""
        groups = (files for name, files in sorted(self._by_name.items()) if name.endswith(".md") and len(files) > 1)
        return [tuple(path for _, path in files) for files in groups]

    def _at(self, path: str, target: str) -> str | None:
        """The file at exactly this path, else the note; where only the case differs, the one written as in the link."""
        for candidate in (path, f"{path}.md"):
            if files := self._paths.get(candidate):
                return next(
                    (file for file in files if file.removesuffix(".md").endswith(target.removesuffix(".md"))), files[0]
                )
        return None

    def _ending_with(self, wanted: str, folder: str) -> str | None:
        """The best of the files whose path ends with this; a file of exactly this name hides the note of the name."""
        name = wanted.rpartition("/")[2]
        for full, files in ((wanted, self._by_name.get(name)), (f"{wanted}.md", self._by_name.get(f"{name}.md"))):
            if files:
                return self._best(full, _under(files, folder)) or self._best_anywhere(full, files)
        return None

    def _best_anywhere(self, full: str, files: list[tuple[str, str]]) -> str | None:
        if full not in self._nearest_root:
            self._nearest_root[full] = self._best(full, files)
        return self._nearest_root[full]

    @staticmethod
    def _best(full: str, files: list[tuple[str, str]]) -> str | None:
        """The shortest path among those that end with `full`, the first in the alphabet among equally long ones."""
        matching = (path for folded, path in files if f"/{folded}".endswith(f"/{full}"))
        return min(matching, key=lambda path: (len(path), path), default=None)


def _under(files: list[tuple[str, str]], folder: str) -> list[tuple[str, str]]:
    """Those of the sorted files that lie below a folder other than the root."""
    after = chr(ord("/") + 1)
    return files[bisect_left(files, (f"{folder}/",)) : bisect_left(files, (f"{folder}{after}",))] if folder else []


def anchor_exists(anchor: str, headings: Sequence[tuple[int, str]], blocks: Iterable[str]) -> bool:
    """Whether a note has the heading (`Heading#Sub`: one below the other) or the block (`^id`) that an anchor names.

    `headings` are level and text in the order of the note. Obsidian compares without case and punctuation.
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
    """The path as Obsidian compares it: composed characters, plain spaces, lower case."""
    if not path.isascii():
        path = unicodedata.normalize("NFC", path.replace("\xa0", " "))
    return path.lower()


def _joined(folder: str, relative: str) -> str:
    """The path that a relative one means; `..` at the root stays at the root."""
    parts = folder.split("/") if folder else []
    for part in relative.split("/"):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
