"""Record the description of the JSON interface: `python -m tests.golden.openapi` writes docs/openapi.json; read the diff."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from starlette.testclient import TestClient

from catchment.runtime.home import Home
from web.__main__ import desk_of
from web.app import application
from web.readiness import Readiness
from web.warm_library import WarmLibrary

DESCRIPTION: Final = Path(__file__).parents[2] / "docs" / "openapi.json"


def served() -> Any:
    """Return the description that a web process serves."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").make()
        library = WarmLibrary(home, lambda _reason: None)
        web = application(library, Readiness(library, None), desk_of(home), "the token")
        return TestClient(web.app).get("/api/v1/openapi.json").json()


if __name__ == "__main__":
    DESCRIPTION.write_text(json.dumps(served(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    sys.exit(0)
