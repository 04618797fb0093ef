"""Where links lead in a vault: Obsidian's way from what is written to a file, a heading, or a block.

The order in which files are tried is that of Obsidian 1.13 (`MetadataCache.getLinkpathDest`), as its documentation and
observations of it tell; the cases are in tests/extract/golden/links.tsv.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_PUNCTUATION = re.compile(r"[!\"#$%&()*+,.:;<=>?@^`{|}~/\[\]\\\s]+")


class VaultIndex:
    """All files of a vault, ready to tell which of them a link leads to.

    `paths` are relative to the vault, with `/`; folders are not among them.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: dict[str, list[str]] = {}
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(paths):
            folded = _folded(path)
            self._paths.setdefault(folded, []).append(path)
            self._by_name.setdefault(folded.rpartition("/")[2], []).append(path)

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
        return [
            tuple(group) for name, group in sorted(self._by_name.items()) if name.endswith(".md") and len(group) > 1
        ]

    def _at(self, path: str, target: str) -> str | None:
        """The file at exactly this path, else the note; where only the case differs, the one written as in the link."""
        for candidate in (path, f"{path}.md"):
            if files := self._paths.get(candidate):
                return next(
                    (file for file in files if file.removesuffix(".md").endswith(target.removesuffix(".md"))), files[0]
                )
        return None

    def _ending_with(self, wanted: str, folder: str) -> str | None:
        name = wanted.rpartition("/")[2]
        for full, key in ((wanted, name), (f"{wanted}.md", f"{name}.md")):
            files = self._by_name.get(key)
            if not files or not name:
                continue
            matching = [file for file in files if f"/{_folded(file)}".endswith(f"/{full}")]
            if matching:
                return min(matching, key=lambda file: (not _is_under(_folded(file), folder), len(file), file))
            return None
        return None


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


def _is_under(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")
