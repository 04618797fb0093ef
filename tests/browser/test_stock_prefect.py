"""Prefect's second interface on Prefect's own server, after the commands of docs/install.md: no part of it is ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.acceptance.prefects_tools import carried_out
from tests.browser.conftest import picture

pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_stock_server_shows_the_source_its_runs_and_the_automations(browser: Browser, tmp_path: Path) -> None:
    with carried_out(tmp_path, keeps_server=True) as (url, _):
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        for path, texts in {
            "deployments": ("example", "sync-obsidian", "Every 1 day"),
            "runs": ("example: 88 added or updated, 1 skipped, 1 quarantined", "Completed", "Cancelled"),
            "artifacts": ("example-summary", "example-quarantine"),
            "automations": ("Tell me what Catchment needs", "Pause a source while its deletions are held"),
        }.items():
            page.goto(f"{url}/v2/{path}")
            for text in texts:
                expect(page.get_by_text(text).filter(visible=True).first).to_be_visible(timeout=30_000)
            picture(page, f"stock-{path}")
        page.context.close()
