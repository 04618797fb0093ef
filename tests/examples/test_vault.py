"""The example vault matches its README and EXPECTED.yaml, checked by scans independent of the product."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from posixpath import basename, dirname, join, normpath, splitext
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
import yaml

from connectors.folders import patterns

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
VAULT = EXAMPLES / "vault"
EXPECTED: dict[str, Any] = yaml.safe_load((EXAMPLES / "EXPECTED.yaml").read_text(encoding="utf-8"))

FRONTMATTER = r"\A---\n(?:.*\n)*?"
FEATURES = {
    "aliases as a list": FRONTMATTER + r"aliases:\n  - ",
    "aliases in brackets": FRONTMATTER + r"aliases: \[",
    "tags as a list": FRONTMATTER + r"tags:\n  - ",
    "a date in the frontmatter": FRONTMATTER + r"due: \d{4}-\d\d-\d\d\n",
    "a link in the frontmatter": FRONTMATTER + r"source: \"\[\[",
    "nested tag in the frontmatter": FRONTMATTER + r"tags: \[.*\w/\w",
    "nested tag in the text": r"(?m)(?:^| )#\w+/[\w-]+",
    "a tag in another script": r"#水/同位体",
    "embed of a whole note": r"(?m)^!\[\[[^\]#.|]+\]\]$",
    "embed of a heading": r"!\[\[[^\]#]+#[^^\]]+\]\]",
    "embed of a block": r"!\[\[[^\]#]+#\^\w+\]\]",
    "embed of an image with a width": r"!\[\[[^\]]+\.png\|300\]\]",
    "embed of a photo": r"!\[\[[^\]]+\.jpg",
    "embed of a page of a PDF": r"!\[\[[^\]]+\.pdf#page=2\]\]",
    "link to a heading": r"(?<!!)\[\[[^\]#|]+#[^^\]|]+\|",
    "link to a block": r"(?<!!)\[\[[^\]#|]+#\^[\w-]+",
    "link with a path": r"\[\[Projects/Bees/Log\|",
    "link to a canvas": r"\[\[[^\]]+\.canvas\|",
    "link in another case": r"\[\[VARROA plan#",
    "link piped inside a table": r"(?m)^\|.*\[\[[^\]]+\\\|[^\]]+\]\].*\|$",
    "Markdown link with %20": r"\]\([^)]*%20[^)]*\.md\)",
    "Markdown link to a heading": r"\]\([^)]*\.md#\w+\)",
    "a web address": r"https://example\.org/",
    "callout": r"(?m)^> \[!\w+\] \S",
    "folded callout": r"(?m)^> \[!\w+\]- ",
    "unfolded callout": r"(?m)^> \[!\w+\]\+ ",
    "callout in a callout in a callout": r"(?m)^> > > \[!\w+\]",
    "block id": r"(?m) \^[\w-]+$",
    "footnote": r"\[\^\w+\](?!:)",
    "definition of a footnote": r"(?m)^\[\^\w+\]: ",
    "inline footnote": r"\^\[[^\]]+\]",
    "inline field on a line": r"(?m)^[\w-]+:: \S",
    "inline field in brackets": r"\[[\w-]+:: [^\]]+\]",
    "inline field in parentheses": r"\([\w-]+:: [^)]+\)",
    "inline comment": r"%% .+ %%",
    "comment of several lines": r"(?m)^%%\n",
    "HTML comment": r"<!-- .+ -->",
    "HTML": r"<details>\n<summary>",
    "inline math": r"(?<!\$)\$[^$\n]+\$(?!\$)",
    "math block": r"(?m)^\$\$\n",
    "mermaid": r"(?m)^```mermaid$",
    "dataview query": r"(?m)^```dataview$",
    "fence of tildes": r"(?m)^~~~\w+$",
    "a link inside a fence": r"(?s)```python\n.*\[\[not a link\]\] and #nottag.*```",
    "a link inside inline code": r"`\[\[also not a link\]\]`",
    "inline code with two ticks": r"``[^`]+`[^`]+`[^`]+``",
    "highlight": r"==[^=\n]+==",
    "template of Obsidian": r"\{\{date:[^}]+\}\}",
    "template of Templater": r"(?s)<% tp\..*<%\*.*-%>",
    "Japanese": r"[ぁ-ん]",
    "Greek": r"[α-ω]{5}",
    "Russian": r"[а-я]{5}",
    "Arabic": r"[ا-ي]{4}",
    "emoji": r"\N{HONEY POT}",
}


class Reference(NamedTuple):
    """A link as found by a simple scan."""

    source: str
    target: str
    anchor: str


@cache
def items() -> tuple[str, ...]:
    """Return every file that is not hidden, as a path relative to the vault."""
    paths = (path.relative_to(VAULT) for path in VAULT.rglob("*") if path.is_file())
    return tuple(sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts)))


def notes() -> list[str]:
    return [item for item in items() if item.endswith(".md")]


@cache
def text(item: str) -> str:
    data = (VAULT / item).read_bytes()
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def prose(item: str) -> str:
    """Return the text of a note without code and comments."""
    without_fences = re.sub(r"(?ms)^(`{3,}|~{3,}).*?(?:^\1|\Z)", "", text(item))
    without_code = re.sub(r"(`+).+?\1", "", without_fences)
    return re.sub(r"(?s)%%.*?%%|<!--.*?-->", "", without_code)


def folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def wikilinks() -> Iterator[Reference]:
    for note in notes():
        for match in re.finditer(r"\[\[([^\]|\\#]*)#?([^\]|\\]*)(?:\\?\|[^\]]*)?\]\]", prose(note)):
            yield Reference(note, match[1], match[2])


def resolve(reference: Reference) -> str | None:
    """Return the item of a wikilink: by path or name, ignoring case; items in the same folder first."""
    if not reference.target:
        return reference.source
    wanted = {folded(reference.target), folded(reference.target + ".md")}
    found = [item for item in items() if any(("/" + folded(item)).endswith("/" + name) for name in wanted)]
    folder = dirname(reference.source)
    return min(found, key=lambda item: dirname(item) != folder, default=None)


def markdown_links() -> Iterator[tuple[str, str, str]]:
    """Yield the source, the decoded target, and the resolved path of each Markdown link."""
    for note in notes():
        for match in re.finditer(r"\]\(([^)\s:]+)\)", prose(note)):
            target = unquote(match[1].partition("#")[0])
            yield note, target, normpath(join(dirname(note), target))


def canvas_links() -> Iterator[tuple[str, str]]:
    for item in items():
        if item.endswith(".canvas"):
            canvas = json.loads(text(item))
            yield from ((item, node["file"]) for node in canvas["nodes"] if node["type"] == "file")


def test_the_vault_has_as_many_notes_and_items_as_expected() -> None:
    assert (len(items()), len(notes())) == (EXPECTED["items"], EXPECTED["notes"])
    assert len(notes()) >= 60


def test_the_vault_is_small_and_its_notes_are_of_all_sizes() -> None:
    sizes = sorted((VAULT / note).stat().st_size for note in notes())
    assert sizes[0] == 0
    assert sizes[1] < 250
    assert 11_000 < sizes[-1] < 12_288
    assert sum(path.stat().st_size for path in VAULT.rglob("*") if path.is_file()) < 1_500_000


@pytest.mark.parametrize("feature", FEATURES)
def test_the_vault_shows(feature: str) -> None:
    assert any(re.search(FEATURES[feature], text(note)) for note in notes())


def test_the_tasks_have_many_kinds_of_status() -> None:
    found = {mark for note in notes() for mark in re.findall(r"(?m)^\s*- \[(.)\] ", text(note))}
    assert found >= set(" x/->!?<")


def test_the_canvas_has_cards_of_every_kind_and_edges() -> None:
    canvas = json.loads(text("Canvas/Spring plan.canvas"))
    assert {node["type"] for node in canvas["nodes"]} == {"text", "file", "link", "group"}
    ids = {node["id"] for node in canvas["nodes"]}
    assert canvas["edges"]
    assert {edge[end] for edge in canvas["edges"] for end in ("fromNode", "toNode")} <= ids


def test_obsidians_own_folders_are_there_and_valid() -> None:
    settings = list((VAULT / ".obsidian").glob("*.json"))
    assert {"app.json", "workspace.json", "community-plugins.json"} <= {path.name for path in settings}
    assert all(json.loads(path.read_text(encoding="utf-8")) for path in settings)
    assert list((VAULT / ".trash").glob("*.md"))


def test_odd_encodings_are_kept() -> None:
    raw = {note: (VAULT / note).read_bytes() for note in notes()}
    crlf = [note for note, data in raw.items() if b"\r\n" in data]
    assert crlf == ["Reading/From the office PC.md"]
    assert raw[crlf[0]].count(b"\n") == raw[crlf[0]].count(b"\r\n")
    assert [note for note, data in raw.items() if data[:3] == b"\xef\xbb\xbf"] == [
        "Reading/Exported from the tablet.md"
    ]
    assert [note for note, data in raw.items() if not is_utf8(data)] == ["Archive/Imkerbuch 2009.md"]
    assert [note for note, data in raw.items() if not data] == ["Inbox/Untitled.md"]


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_one_note_is_broken_in_two_ways() -> None:
    broken = text("Inbox/Import from the phone.md")
    assert len(re.findall(r"(?m)^```", broken)) == 1
    assert "[[never a link]]" not in prose("Inbox/Import from the phone.md")
    assert not has_good_frontmatter("Inbox/Import from the phone.md")


def test_only_the_listed_notes_have_warnings() -> None:
    odd = {note for note in notes() if not has_good_frontmatter(note) or not is_utf8((VAULT / note).read_bytes())}
    assert odd == set(EXPECTED["warned"])


def has_good_frontmatter(note: str) -> bool:
    found = re.match(r"---\n(.*?\n)---\n", text(note), re.DOTALL)
    try:
        return found is None or isinstance(yaml.safe_load(found[1]), dict)
    except (yaml.YAMLError, ValueError):
        return False


def test_names_are_legal_everywhere_and_never_collide() -> None:
    reserved = {"con", "prn", "aux", "nul", *(f"{device}{n}" for device in ("com", "lpt") for n in range(1, 10))}
    paths = [path.relative_to(VAULT).as_posix() for path in VAULT.rglob("*")]
    for part in {part for path in paths for part in path.split("/")}:
        assert not re.search(r'[<>:"\\|?*\x00-\x1f]', part)
        assert not part.endswith((" ", "."))
        assert part.split(".")[0].lower() not in reserved
        assert len(part.encode()) <= 255
    assert max(len(path) for path in paths) < 120
    assert [path for path, count in Counter(map(folded, paths)).items() if count > 1] == []


def test_one_name_has_combining_accents_and_its_links_do_not() -> None:
    decomposed = [item for item in items() if unicodedata.normalize("NFC", item) != item]
    assert decomposed == [unicodedata.normalize("NFD", "People/Zoé Béranger.md")]
    assert any(link.target == unicodedata.normalize("NFC", "Zoé Béranger") for link in wikilinks())


def test_two_notes_share_a_name_and_two_share_their_content() -> None:
    names = Counter(basename(item) for item in items())
    assert [name for name, count in names.items() if count > 1] == ["Log.md"]
    by_content: dict[bytes, list[str]] = {}
    for item in items():
        by_content.setdefault((VAULT / item).read_bytes(), []).append(item)
    assert [same for same in by_content.values() if len(same) > 1] == EXPECTED["identical"]


def test_links_run_in_circles() -> None:
    edges = {(link.source, resolve(link)) for link in wikilinks()}
    assert ("Projects/Bees/Hive 07.md", "Projects/Bees/Varroa plan.md") in edges
    assert ("Projects/Bees/Varroa plan.md", "Projects/Bees/Hive 07.md") in edges
    assert ("Projects/Allotments/Plot 17.md", "Projects/Allotments/Plot 17.md") in edges


def test_exactly_the_listed_links_are_broken() -> None:
    broken = {(link.source, link.target) for link in wikilinks() if resolve(link) is None}
    broken |= {(note, target) for note, target, path in markdown_links() if path not in items()}
    broken |= {(canvas, target) for canvas, target in canvas_links() if target not in items()}
    assert broken == {(link["from"], link["target"]) for link in EXPECTED["broken_links"]}
    assert 2 <= len(broken) <= 4


def test_exactly_the_listed_anchors_are_missing() -> None:
    missing = set()
    for link in wikilinks():
        note = resolve(link)
        if link.anchor and note and note.endswith(".md") and not has_anchor(text(note), link.anchor):
            missing.add((link.source, link.target, link.anchor))
    assert missing == {(link["from"], link["target"], link["anchor"]) for link in EXPECTED["broken_anchors"]}


def has_anchor(note: str, anchor: str) -> bool:
    if anchor.startswith("^"):
        return re.search(rf"(?m) {re.escape(anchor)}$", note) is not None
    return re.search(rf"(?m)^#+ {re.escape(anchor.rpartition('#')[2])}$", note) is not None


@pytest.mark.parametrize("backlink", EXPECTED["backlinks"], ids=lambda backlink: str(backlink["item"]))
def test_backlinks_are_as_expected(backlink: dict[str, Any]) -> None:
    edges = {(link.source, resolve(link)) for link in wikilinks()}
    edges |= {(note, path) for note, _, path in markdown_links()}
    edges |= set(canvas_links())
    assert sorted(source for source, target in edges if target == backlink["item"]) == backlink["from"]


@pytest.mark.parametrize(
    "search", EXPECTED["searches"] + EXPECTED["other_searches"], ids=lambda search: str(search["words"])
)
def test_only_the_first_hit_contains_all_the_words(search: dict[str, str]) -> None:
    words = [re.compile(rf"(?<![^\W_]){re.escape(word)}|(?<=[ぁ-鿿]){word}", re.I) for word in search["words"].split()]
    assert [item for item in items() if all(word.search(text(item)) for word in words)] == [search["first"]]


def test_the_damaged_pdf_is_the_only_one_without_an_end() -> None:
    cut = [item for item in items() if item.endswith(".pdf") and b"%%EOF" not in (VAULT / item).read_bytes()]
    assert [{"item": item, "reason": "parse_error"} for item in cut] == EXPECTED["quarantined"]


def test_every_item_named_in_the_expectations_exists() -> None:
    named = [entry["item"] for entry in EXPECTED["skipped"] + EXPECTED["quarantined"] + EXPECTED["backlinks"]]
    named += [entry["first"] for entry in EXPECTED["searches"] + EXPECTED["other_searches"]] + EXPECTED["warned"]
    assert set(named) <= set(items())
    assert len(EXPECTED["searches"]) == 3


def test_attachments_are_of_many_formats() -> None:
    starts = {
        ".pdf": b"%PDF-1.4",
        ".docx": b"PK\x03\x04",
        ".eml": b"Received: ",
        ".csv": b"time_utc,",
        ".ics": b"BEGIN:VCALENDAR\r\n",
        ".png": b"\x89PNG\r\n\x1a\n",
        ".jpg": b"\xff\xd8\xff\xe0",
        ".dat": b"\x00\xff",
    }
    for item in items():
        if item.startswith("Attachments/"):
            assert (VAULT / item).read_bytes().startswith(starts[splitext(item)[1]])
    assert {splitext(item)[1] for item in items() if item.startswith("Attachments/")} == set(starts)


def test_attachment_generator_is_reproducible(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-B", EXAMPLES / "make_binaries.py", tmp_path], check=True, env={"TZ": "Asia/Tokyo"}
    )
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {name: (VAULT / "Attachments" / name).read_bytes() for name in made}
    attachments = {path.name for path in (VAULT / "Attachments").iterdir()}
    assert attachments - set(made) == {"letter-1974-red-key.png", "summer-fair.ics"}


def test_vault_contains_no_real_address() -> None:
    readable = [text(item) for item in items() if not item.endswith((".png", ".jpg", ".dat", ".docx"))]
    hosts = {host for content in readable for host in re.findall(r"(?:\w@|https?://)([\w.-]+\w)", content)}
    assert hosts
    assert all(host == "example.org" or host.endswith(".example.org") for host in hosts)


def test_git_keeps_the_bytes_and_hides_no_file() -> None:
    assert "examples/vault/** -text" in (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    ignored = patterns.parse_ignore_file(patterns.split_lines((ROOT / ".gitignore").read_text(encoding="utf-8")))
    assert not [path for path in VAULT.rglob("*") if ignored.ignores(path.relative_to(ROOT).as_posix())]
