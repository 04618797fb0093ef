"""docs/settings.md has every setting and every variable of the environment."""

from __future__ import annotations

import re
from pathlib import Path

from tests.golden.settings import CONNECTORS, PAGE, connectors_page, page

ROOT = Path(__file__).parent.parent
PACKAGES = ("assistant", "catchment", "connectors", "console", "deployments", "flows", "sinks", "tasks", "web")
INTERNAL = {"CATCHMENT_GIT_TOKEN", "CATCHMENT_PRELOAD", "CATCHMENT_SUPERVISOR", "CATCHMENT_COMPLETE"}
"""Variables that our processes set for each other, or a shell for its completion."""


def test_page_of_settings_is_made_from_the_present_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.golden.settings"


def test_page_of_connectors_has_the_present_rules() -> None:
    assert CONNECTORS.read_text(encoding="utf-8") == connectors_page(), "run: python -m tests.golden.settings"


def test_page_of_settings_has_each_variable_of_the_environment() -> None:
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    read = {name for file in files for name in re.findall(r'"(CATCHMENT_[A-Z_]+)"', file.read_text(encoding="utf-8"))}
    assert read - INTERNAL == set(re.findall(r"^\| `(CATCHMENT_\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
