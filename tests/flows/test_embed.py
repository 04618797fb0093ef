"""The flow `embed` with the built-in model, which its child process loads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect.client.schemas.objects import State

from catchment.ledger import EmbeddingCounts, Ledger
from catchment.model import Priority
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.settings import Home
from catchment.sync.fair_share import QUEUE
from flows.embed import embed
from tasks import activity
from tasks import background_work as tasks_embed
from tests.flows.conftest import Window
from tests.flows.test_sync import sync

pytestmark = [pytest.mark.server, pytest.mark.long]

_NOTES = 200


@pytest.fixture
def library(window: Window, home: Home, tmp_path: Path) -> Home:
    """The home of a library of many passages without embeddings."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for n in range(_NOTES):
        (folder / f"{n}.md").write_text(f"# Note {n}\n\nThe keeper of lamp {n} counts {n * 7} boats.\n")
    assert sync("embedded", folder).name == "Completed"
    return home


def _embed() -> State[Any]:
    state: State[Any] = asyncio.run(embed(return_state=True))
    return state


def _counts(home: Home) -> EmbeddingCounts:
    with closing(Ledger.inspect(home.database_url)) as ledger:
        return ledger.embeddings.counts(ledger.embeddings.wanted())


def _vectors(home: Home) -> set[tuple[int, int]]:
    """Return the ID and the chunk of each vector."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        space = ledger.embeddings.wanted()
        rows = [] if space is None else [row for part in ledger.embeddings.vectors(space, 0) for row in part]
        return {(row[0], row[2]) for row in rows}


def _processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "catchment.search.meaning" in child.cmdline()]


def _last_name(window: Window) -> str:
    return str(window.run_of("embed")["name"])


def _kill_process() -> None:
    _processes()[0].kill()


def _stop_run() -> None:
    activity.stop(str(activity.statuses()[0].run))


async def _interrupted(act: Callable[[], object], home: Home) -> State[Any]:
    """Run the flow, and call `act` once some passages are embedded."""
    run = asyncio.create_task(embed(return_state=True))  # type: ignore[arg-type]  # typed as not awaitable
    while _counts(home).done == 0:
        await asyncio.sleep(0.01)
    act()
    state: State[Any] = await run
    return state


def test_every_passage_has_a_vector_after_the_run(window: Window, library: Home) -> None:
    assert _embed().name == "Completed"
    assert _counts(library) == EmbeddingCounts(_NOTES, _NOTES, 0)
    vectors = _vectors(library)
    assert len(vectors) == _NOTES
    assert _last_name(window) == f"embed: {_NOTES} passages"
    assert _processes() == []
    assert _embed().name == "Completed"
    assert _last_name(window) == "embed: nothing to do"
    assert _vectors(library) == vectors


def test_killed_process_crashes_its_run_and_the_next_embeds_the_rest(window: Window, library: Home) -> None:
    state = asyncio.run(_interrupted(_kill_process, library))
    assert (state.type.value, "signal 9" in str(state.message)) == ("CRASHED", True)
    assert _last_name(window) == "embed: failed"
    before = _vectors(library)
    assert 0 < len(before) < _NOTES
    assert _embed().name == "Completed"
    after = _vectors(library)
    assert before < after, "what was embedded before the kill is not embedded again"
    assert len(after) == len({chunk for _, chunk in after}) == _NOTES


def test_stopped_run_ends_cancelled_and_the_next_embeds_the_rest(window: Window, library: Home) -> None:
    state = asyncio.run(_interrupted(_stop_run, library))
    assert (state.type.value, state.name) == ("CANCELLED", "Cancelled")
    assert _last_name(window).startswith("embed: stopped after ")
    assert _processes() == []
    before = _vectors(library)
    assert _embed().name == "Completed"
    assert before < _vectors(library)


def test_run_ends_when_search_by_meaning_is_switched_off(window: Window, library: Home) -> None:
    def switch_off() -> None:
        with closing(Ledger.open(library.database_url)) as ledger:
            ledger.embeddings.setting = "off"

    state = asyncio.run(_interrupted(switch_off, library))
    assert (state.type.value, state.message) == ("CANCELLED", "Stopped: the model was changed; the next run continues")
    assert len(_vectors(library)) < _NOTES


def test_embedding_waits_while_a_sync_works(library: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_embed, "_WAIT_SECONDS", 100.0)
    share = QUEUE.join("local_files", 1, Priority.NORMAL)

    def has_loaded_the_model() -> bool:
        with closing(Ledger.inspect(library.database_url)) as ledger:
            return ledger.embeddings.wanted() is not None

    async def beside_a_step() -> EmbeddingCounts:
        with share.step():
            run = asyncio.create_task(embed(return_state=True))  # type: ignore[arg-type]  # typed as not awaitable
            while not has_loaded_the_model():
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            before = _counts(library)
        share.close()
        assert (await run).name == "Completed"
        return before

    assert asyncio.run(beside_a_step()).done == 0
    assert _counts(library).done == _NOTES


def test_silent_process_is_killed_and_crashes_its_run(library: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_embed, "_SILENCE_SECONDS", 0.05)
    state = _embed()
    assert (state.type.value, "no progress" in str(state.message)) == ("CRASHED", True)
    assert _processes() == []


def test_run_without_a_model_is_skipped_with_the_reason(window: Window, library: Home) -> None:
    with closing(Ledger.open(library.database_url)) as ledger:
        ledger.embeddings.setting = "ollama:none@http://127.0.0.1:9"
        state = _embed()
        assert (state.type.value, state.name) == ("COMPLETED", "Skipped")
        status = MeaningStatus.read(library, ledger)
        assert status.reason == state.message
        assert "does not answer" in status.reason
        assert (_last_name(window), status.done, status.total) == ("embed: off", 0, _NOTES)
        ledger.embeddings.setting = "use"
        assert _embed().name == "Completed"
        assert str(MeaningStatus.read(library, ledger)) == f"search by meaning: {_NOTES} passages"


def test_run_without_a_library_has_nothing_to_do(window: Window, home: Home) -> None:
    assert _embed().name == "Completed"
    assert _last_name(window) == "embed: nothing to do"


def test_error_is_reported_without_its_text(window: Window, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", "unknown://lamp")
    state = _embed()
    assert (state.type.value, _last_name(window)) == ("CRASHED", "embed: failed")
    assert "(BadInput at " in str(state.message)
    assert "lamp" not in str(state.message)
