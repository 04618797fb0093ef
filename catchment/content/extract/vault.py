"""Check a whole vault: resolve its links (`VaultIndex`) and report flaws (`quality_report`)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from catchment.content.extract.resolve import VaultIndex, anchor_exists
from catchment.model import Document, EntityKind, Extraction, Link, LinkKind

__all__ = ["QualityReport", "VaultFinding", "VaultFlaw", "VaultIndex", "anchor_exists", "quality_report"]


class VaultFlaw(StrEnum):
    """A kind of flaw in a vault."""

    BROKEN_LINK = "broken_link"
    BROKEN_ANCHOR = "broken_anchor"
    BAD_FRONTMATTER = "bad_frontmatter"
    ORPHAN = "orphan"
    EMPTY = "empty"
    SAME_NAME = "same_name"


_LINE_END = re.compile(r"\n")
_FAULTS = frozenset({VaultFlaw.BROKEN_LINK, VaultFlaw.BROKEN_ANCHOR, VaultFlaw.BAD_FRONTMATTER})
_TITLES = {
    VaultFlaw.BROKEN_LINK: "Broken links",
    VaultFlaw.BROKEN_ANCHOR: "Links to missing headings or blocks",
    VaultFlaw.BAD_FRONTMATTER: "Invalid frontmatter",
    VaultFlaw.ORPHAN: "Notes without links",
    VaultFlaw.EMPTY: "Empty notes",
    VaultFlaw.SAME_NAME: "Notes with the same name",
}


@dataclass(frozen=True, slots=True, order=True)
class VaultFinding:
    """A flaw in a note. `line` counts from 1 in the text of the note; 0 means its properties or the whole note."""

    flaw: VaultFlaw
    path: str
    line: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class QualityReport:
    """The counts and the sorted findings of a vault."""

    notes: int
    files: int
    links: int
    backlinks: int
    findings: tuple[VaultFinding, ...]

    @property
    def exit_code(self) -> int:
        """1 if links, anchors or frontmatter are broken, else 0; empty, unlinked and equally named notes are not errors."""
        return int(any(finding.flaw in _FAULTS for finding in self.findings))

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        counts = Counter(finding.flaw for finding in self.findings)
        lines = [
            "# Vault quality",
            "",
            f"{self.notes} notes, {self.files} files in all, {self.links} links, {self.backlinks} of them between notes.",
        ]
        for flaw, title in _TITLES.items():
            lines += "", f"## {title}: {counts[flaw]}", ""
            lines += (_line(finding) for finding in self.findings if finding.flaw is flaw)
        return "\n".join(lines).rstrip() + "\n"


@dataclass(slots=True)
class _Note:
    """The data of a note that the report needs once all notes are read."""

    links: list[tuple[Link, int]]
    headings: list[tuple[int, str]]
    blocks: frozenset[str]
    linked: bool = False
    findings: list[VaultFinding] = field(default_factory=list)


def quality_report(paths: Iterable[str], notes: Iterable[tuple[str, Document, Extraction]]) -> QualityReport:
    """Return the report on a vault. `paths` are all its files; `notes` yields each note and canvas once."""
    everything = list(paths)
    vault = {path: _note(path, document, extraction) for path, document, extraction in notes}
    index = VaultIndex(everything)
    findings: list[VaultFinding] = []
    links = backlinks = 0
    for path, note in vault.items():
        for link, line in note.links:
            links += 1
            resolved = index.resolve(link.target, path)
            if resolved is None:
                findings.append(VaultFinding(VaultFlaw.BROKEN_LINK, path, line, link.target or link.anchor))
                continue
            other = vault.get(resolved)
            if other is None:
                continue
            if resolved != path:
                backlinks += 1
                note.linked = other.linked = True
            if not anchor_exists(link.anchor, other.headings, other.blocks):
                findings.append(VaultFinding(VaultFlaw.BROKEN_ANCHOR, path, line, f"{link.target}#{link.anchor}"))
    for path, note in vault.items():
        findings += note.findings
        if not note.linked:
            findings.append(VaultFinding(VaultFlaw.ORPHAN, path))
    for group in index.same_names():
        findings += (VaultFinding(VaultFlaw.SAME_NAME, path, 0, group[0].rpartition("/")[2]) for path in group)
    return QualityReport(len(vault), len(everything), links, backlinks, tuple(sorted(findings)))


def _note(path: str, document: Document, extraction: Extraction) -> _Note:
    ends = [end.start() for end in _LINE_END.finditer(document.text)]
    note = _Note(
        links=[
            (link, 1 + bisect_right(ends, link.start) if link.kind is not LinkKind.FRONTMATTER else 0)
            for link in extraction.links
            if link.kind is not LinkKind.URL
        ],
        headings=[(int(each.detail), each.value) for each in extraction.entities if each.kind is EntityKind.HEADING],
        blocks=frozenset(each.value for each in extraction.entities if each.kind is EntityKind.BLOCK),
    )
    if not document.text.strip() and not document.properties:
        note.findings.append(VaultFinding(VaultFlaw.EMPTY, path))
    note.findings += (
        VaultFinding(VaultFlaw.BAD_FRONTMATTER, path, 1, warning)
        for warning in document.warnings
        if "frontmatter" in warning
    )
    return note


def _line(finding: VaultFinding) -> str:
    place = f"{finding.path}:{finding.line}" if finding.line else finding.path
    return f"- `{place}`" + (f": {finding.detail}" if finding.detail else "")
