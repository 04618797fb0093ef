"""The example vault, synced by the product, gives the results in examples/EXPECTED.yaml."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.person import PROJECT, Person

pytestmark = pytest.mark.acceptance

_EXPECTED: dict[str, Any] = yaml.safe_load((PROJECT / "examples" / "EXPECTED.yaml").read_text(encoding="utf-8"))
_IMAGES = {".jpg", ".png"}


@pytest.fixture(scope="module")
def synced(person: Person) -> Person:
    """A user after adding the example vault as `example` and syncing it."""
    person("add", "obsidian", PROJECT / "examples" / "vault", "--name", "example").ok()
    person.sync("example")
    return person


@pytest.fixture(scope="module")
def jobs(synced: Person) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = synced("jobs", "list", "--source", "example", "--limit", "1000", "--json").ok().json
    return listed


@pytest.fixture(scope="module")
def report(synced: Person) -> dict[str, Any]:
    """Return the output of `vault report`. This vault has broken links, so the command exits with 1."""
    said = synced("vault", "report", "example", "--json")
    assert said.code == 1, said
    found: dict[str, Any] = said.json
    return found


def test_every_file_is_an_item(synced: Person, jobs: list[dict[str, Any]]) -> None:
    items = _EXPECTED["items"] + _EXPECTED["parts"]
    assert (len(jobs), len({job["item"] for job in jobs})) == (items, items)
    assert sum(Path(job["item"]).suffix == ".md" for job in jobs) == _EXPECTED["notes"]


@pytest.mark.parametrize(
    "search", [*_EXPECTED["searches"], *_EXPECTED["other_searches"]], ids=lambda search: search["words"]
)
def test_expected_document_is_the_first_hit(synced: Person, search: dict[str, str]) -> None:
    hits = synced("search", "--source", "example", "--json", *search["words"].split()).ok().json
    assert [nfc(hit["item"]) for hit in hits[:1]] == [nfc(search["first"])]


def test_unreadable_files_are_quarantined_with_their_reasons(synced: Person) -> None:
    listed = synced("quarantine", "list", "--source", "example", "--json").ok().json
    assert [{"item": entry["item"], "reason": entry["reason"]} for entry in listed] == _EXPECTED["quarantined"]


def test_unsupported_files_are_skipped_with_their_reasons(jobs: list[dict[str, Any]]) -> None:
    skipped = [{"item": job["item"], "reason": job["reason"]} for job in jobs if job["state"] == "skipped"]
    assert [one for one in skipped if Path(one["item"]).suffix not in _IMAGES] == _EXPECTED["skipped"]


def test_all_other_files_are_in_the_library(synced: Person, jobs: list[dict[str, Any]]) -> None:
    elsewhere = {entry["item"] for entry in [*_EXPECTED["quarantined"], *_EXPECTED["skipped"]]}
    succeeded = {job["item"] for job in jobs if job["state"] == "succeeded"}
    assert {item for item in succeeded ^ {job["item"] for job in jobs} if Path(item).suffix not in _IMAGES} == elsewhere
    assert synced.source("example")["documents"] == len(succeeded)


def test_warnings_are_shown_with_the_document(synced: Person, jobs: list[dict[str, Any]]) -> None:
    notes = [job["item"] for job in jobs if job["item"] in _EXPECTED["warned"] or job["item"].startswith("Inbox/")]
    warned = [item for item in notes if synced("show", item, "--json").ok().json["warnings"]]
    assert sorted(warned) == sorted(_EXPECTED["warned"])


def test_exactly_the_broken_links_are_reported(report: dict[str, Any]) -> None:
    assert flaws(report, "broken_link") == sorted((link["from"], link["target"]) for link in _EXPECTED["broken_links"])


def test_a_missing_heading_is_reported(report: dict[str, Any]) -> None:
    expected = [(link["from"], f"{link['target']}#{link['anchor']}") for link in _EXPECTED["broken_anchors"]]
    assert flaws(report, "broken_anchor") == expected


@pytest.mark.parametrize("backlinks", _EXPECTED["backlinks"], ids=lambda backlinks: backlinks["item"])
def test_all_backlinks_are_found(synced: Person, backlinks: dict[str, Any]) -> None:
    found = synced("related", backlinks["item"], "--json").ok().json
    sources = [nfc(one["item"]) for one in found if one["relation"] == "linked from"]
    assert sorted(sources) == sorted(map(nfc, backlinks["from"]))


def test_duplicate_content_is_reported_at_both_paths(synced: Person) -> None:
    for one, other in _EXPECTED["identical"]:
        for item in (one, other):
            places = synced("show", item, "--json").ok().json["places"]
            assert sorted(path for _, path in places) == [one, other]


def test_second_sync_finds_no_changes(synced: Person) -> None:
    said = synced("sync", "example", "--wait").ok()
    assert said.out.startswith("example: nothing to do")


def flaws(report: dict[str, Any], flaw: str) -> list[tuple[str, str]]:
    return sorted((found["path"], found["detail"]) for found in report["findings"] if found["flaw"] == flaw)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)
