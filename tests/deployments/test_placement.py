"""Where a source of a joined host may run, and its entry in the sources file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catchment.errors import BadInput, Refused
from catchment.runtime.membership import Membership
from deployments.sources.entries import Timing, prepare
from deployments.sources.placement import queue_of, written
from deployments.sources.sources_file import SourceEntry, SourcesFile

ATTIC = Membership("attic", "https://library.lan", "file:/login")


def mail(**settings: Any) -> SourceEntry:
    return prepare("imap", "me@example.org", "mail", settings, Timing())


def test_queue_follows_what_the_source_needs(tmp_path: Path) -> None:
    """A path or a secret of this machine binds a source to it; a secret of the Prefect server does not."""
    (tmp_path / "addresses").write_text("https://example.org")
    folder = prepare("local_files", str(tmp_path), "notes", {}, Timing())
    listed = prepare("web", str(tmp_path / "addresses"), "listed", {}, Timing())
    page = prepare("web", "https://example.org", "page", {}, Timing())
    everything = [folder, listed, page, mail(password="env:PASSWORD"), mail(password="block:mail")]

    def queues(*, is_any_taken: bool) -> list[str]:
        return [queue_of(one, "", ATTIC, is_any_taken=is_any_taken) for one in everything]

    assert queues(is_any_taken=False) == ["host-attic"] * len(everything)
    assert queues(is_any_taken=True) == ["host-attic", "host-attic", "any", "host-attic", "any"]
    with pytest.raises(BadInput, match="root is on one machine"):
        queue_of(folder, "any", ATTIC, is_any_taken=True)
    with pytest.raises(Refused, match="run the command on barn"):
        queue_of(page, "barn", ATTIC, is_any_taken=True)


def test_deployment_becomes_an_entry_again(tmp_path: Path) -> None:
    """Settings that people wrote by hand or changed in the UI are kept too: tags, parameters, job variables, schedules."""
    row = {
        "name": "mail",
        "entrypoint": "flows.imap.sync_imap",
        "tags": ["source", "imap", "mine", "host:barn", "failing"],
        "parameters": {"name": "mail", "settings": {"host": "example.org", "user": "me", "password": "block:mail"}},
        "schedules": [
            {
                "active": False,
                "slug": "main",
                "parameters": {},
                "schedule": {"interval": 900.0, "timezone": "UTC", "anchor_date": "2026-01-01T00:00:00Z"},
            }
        ],
        "paused": True,
        "job_variables": {"at_once": 3, "cpu": None},
        "concurrency_options": {"collision_strategy": "ENQUEUE"},
        "global_concurrency_limit": {"limit": 1},
        "work_pool_name": "catchment",
        "work_queue_name": "any",
    }
    with SourcesFile.changing(tmp_path / "sources.yaml") as file:
        entry = file.adopt(written(row, ATTIC.queue))

    (kept,) = SourcesFile.load(tmp_path / "sources.yaml").entries
    deployment = SourcesFile.load(tmp_path / "sources.yaml").file.deployments[0]
    assert kept == entry
    assert (kept.queue, kept.paused, kept.settings.host) == ("host-attic", True, "example.org")  # type: ignore[attr-defined]
    assert (kept.schedules[0].slug, kept.schedules[0].active, str(kept.schedules[0])) == ("main", False, "every 15 min")
    assert deployment.tags == ("source", "imap", "mine")
    assert (deployment.work_pool.job_variables or {})["at_once"] == 3
