"""The maps for contributors name every room and no other, and the pictures are drawn from the present code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PACKAGES = ("assistant", "catchment", "connectors", "console", "deployments", "flows", "sinks", "tasks", "web")
MAPS = ("CONTRIBUTING.md", "docs/architecture.md")
IMAGES = ROOT / "docs" / "images"


def _rooms() -> set[str]:
    """Return the packages, and the folders directly in the packages that have rooms."""
    inner = {path.parent for package in PACKAGES for path in (ROOT / package).glob("*/__init__.py")}
    return {*PACKAGES, *(str(path.relative_to(ROOT)) for path in inner)}


def _map(document: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.search(r"^## (The map|Rooms)\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert found, f"{document} has no section with the rooms"
    return found[2]


@pytest.mark.parametrize("document", MAPS)
def test_each_room_stands_in_the_map(document: str) -> None:
    rooms = _map(document)
    assert {room for room in _rooms() if f"`{room}/`" not in rooms} == set()


@pytest.mark.parametrize("document", MAPS)
def test_each_path_of_the_map_is_there(document: str) -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+(?:/|\.py))`", _map(document)))
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("name", ["processes", "note"])
def test_picture_is_drawn_from_the_present_code(name: str) -> None:
    data = yaml.safe_load((IMAGES / "pictures.yaml").read_text(encoding="utf-8"))
    codes = [code for _, _, code, _ in data[name]["boxes"].values()]
    drawn = runpy.run_path(str(IMAGES / "draw.py"))["pictures"]()

    assert [code for code in codes if not (ROOT / code).exists()] == []
    assert drawn[f"{name}.svg"] == (IMAGES / f"{name}.svg").read_text(encoding="utf-8"), "python docs/images/draw.py"
