"""The embeddings that the web process makes after a save."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.search.meaning.choice import load
from tests.search.test_models import address, serving
from tests.web.conftest import fill
from web import warm_library
from web.warm_library import WarmLibrary


def test_model_that_fails_is_asked_again_after_growing_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, messages, now = Home(tmp_path).make(), list[str](), [100.0]
    monkeypatch.setattr(warm_library, "time", SimpleNamespace(monotonic=lambda: now[0]))
    fill(home)
    with serving() as server:
        library = WarmLibrary(home, messages.append)
        ledger, _ = library._open_library()
        with_model(library, address(server))
        server.mood, server.spoils_all = "503", True
        attempts = []
        for _ in range(20):
            before = len(server.texts)
            library.embed_few()
            if len(server.texts) > before:
                attempts.append(now[0] - 100)
            now[0] += 1
        assert attempts == [0, 2, 6, 14]
        assert "status 503; start or repair it" in messages[-1]
        server.mood = ""
        now[0] += 20
        library.embed_few()
        assert messages[-1] == ""
        assert ledger.embeddings.counts(ledger.embeddings.searched()).done == 3


def with_model(library: WarmLibrary, setting: str) -> None:
    """Choose a model. Searches use its space, which has no embeddings yet."""
    ledger = Ledger.open(library._home)
    ledger.embeddings.setting = setting
    model = load(setting)
    ledger.embeddings.space(model.name, setting, model.dimensions)
    ledger.close()
