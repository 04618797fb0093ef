"""The report on a vault: flaws with their positions, and no findings for an intact vault."""

from __future__ import annotations

import json

from catchment.content.extract import extract
from catchment.content.extract.vault import QualityReport, VaultFinding, VaultFlaw, quality_report
from catchment.content.normalize import normalize
from catchment.model import RawContent
from catchment.runtime.reports.record_json import to_json


def _report(files: dict[str, str]) -> QualityReport:
    notes = []
    for path, text in files.items():
        if path.endswith((".md", ".canvas")):
            document = normalize(RawContent(text.encode(), path))
            notes.append((path, document, extract(document)))
    return quality_report(files, notes)


def test_intact_vault_has_no_findings_and_exit_code_zero() -> None:
    report = _report(
        {
            "A.md": "# One\n[[B#Two]] ![[pic.png]]",
            "B.md": "# Two\n[[A]] [[#Two]] text ^b1",
            "pic.png": "",
            "Board.canvas": '{"nodes":[{"id":"1","type":"file","file":"A.md","subpath":"#One"}]}',
        }
    )
    assert report.findings == ()
    assert report.exit_code == 0
    assert (report.notes, report.files, report.links, report.backlinks) == (3, 4, 5, 3)


def test_links_in_a_circle_are_fine() -> None:
    assert _report({"A.md": "[[B]]", "B.md": "[[C]]", "C.md": "[[A]]"}).exit_code == 0


def test_flaws_are_found_with_their_position() -> None:
    report = _report(
        {
            "A.md": "---\nup: '[[Gone]]'\n---\n[[B]]\n[[Nowhere|x]]\n[[B#Missing]] [[B#^no]]",
            "B.md": "---\nbad: [\n---\n[[A]]",
        }
    )
    assert report.findings == (
        VaultFinding(VaultFlaw.BAD_FRONTMATTER, "B.md", 1, "frontmatter: not valid YAML; kept as text"),
        VaultFinding(VaultFlaw.BROKEN_ANCHOR, "A.md", 3, "B#Missing"),
        VaultFinding(VaultFlaw.BROKEN_ANCHOR, "A.md", 3, "B#^no"),
        VaultFinding(VaultFlaw.BROKEN_LINK, "A.md", 0, "Gone"),
        VaultFinding(VaultFlaw.BROKEN_LINK, "A.md", 2, "Nowhere"),
    )
    assert report.exit_code == 1


def test_unlinked_empty_and_ambiguous_notes_are_not_errors() -> None:
    report = _report({"A.md": "alone", "x/B.md": "", "y/b.md": "[[x/B]]"})
    assert [(finding.flaw, finding.path) for finding in report.findings] == [
        (VaultFlaw.EMPTY, "x/B.md"),
        (VaultFlaw.ORPHAN, "A.md"),
        (VaultFlaw.SAME_NAME, "x/B.md"),
        (VaultFlaw.SAME_NAME, "y/b.md"),
    ]
    assert report.exit_code == 0


def test_json_and_markdown_reports_agree() -> None:
    report = _report({"A.md": "[[Gone]]", "B.md": "[[A]]"})
    parsed = json.loads(to_json(report))
    assert parsed["findings"] == [{"detail": "Gone", "flaw": "broken_link", "line": 1, "path": "A.md"}]
    assert parsed["links"] == 2
    assert "## Broken links: 1\n\n- `A.md:1`: Gone\n" in report.to_markdown()
