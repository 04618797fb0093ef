"""Making embeddings with a server that fails, or while another decision about the model or a source is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select

from catchment.errors import MeaningOff, ModelChanged
from catchment.ledger import EmbeddingCounts, Ledger
from catchment.ledger.db.schema import embeddings
from catchment.model import Priority, Upsert
from catchment.search.meaning import fill as filling
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import fill
from catchment.search.meaning.index import MeaningIndex
from catchment.search.meaning.models import Refusal
from tests.ledger.world import Clock, World, content, delivered, note, notes
from tests.search.test_models import _Server, address, serving

_NOTES = 30
_OTHERS = ("off", "use", "ollama:other@http://127.0.0.1:9")


class Cheap:
    """A model that is ready at once. `refuses`: the share of texts that it refuses."""

    dimensions = 4

    def __init__(self, name: str, setting: str = "use", refuses: float = 0.0) -> None:
        self.name, self.setting, self.refuses = name, setting, refuses
        self.texts: list[str] = []

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        self.texts += texts
        refused = int(self.refuses * len(texts))
        return [Refusal("no")] * refused + [bytes([1, 2, 3, len(text) % 100]) for text in texts[refused:]]

    def query(self, text: str) -> Sequence[float]:
        raise NotImplementedError


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    url, clock = f"sqlite:///{tmp_path / 'ledger.db'}", Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        world.ingest(*notes(_NOTES))
        yield world


@pytest.fixture
def server(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    """The server of the wanted model. Failures are final at once."""
    monkeypatch.setattr(filling, "_PAUSES", ())
    with serving() as server:
        world.ledger.embeddings.setting = address(server)
        yield server


def searched(world: World) -> tuple[str, int]:
    """Return the name of the searched space, and the number of its vectors."""
    space = world.ledger.embeddings.searched()
    assert space is not None
    mine = (embeddings.c.space_id == space.id) & embeddings.c.vector.is_not(None)
    with world.ledger._store.read() as reading:
        return space.name, reading.execute(select(func.count()).select_from(embeddings).where(mine)).scalar_one()


def after(number: int, act: Callable[[], object]) -> Callable[[list[str]], object]:
    """Call `act` when the server has received this many groups of texts."""
    seen: list[list[str]] = []

    def count(texts: list[str]) -> None:
        if texts != ["search"]:
            seen.append(texts)
            if len(seen) == number:
                act()

    return count


@pytest.mark.parametrize("setting", _OTHERS)
def test_no_text_is_sent_after_the_model_was_changed(world: World, server: _Server, setting: str) -> None:
    made = world.ledger.embeddings
    model = load(made.setting)
    server.texts.clear()
    server.on_texts = after(2, lambda: setattr(made, "setting", setting))
    with pytest.raises(ModelChanged):
        fill(world.ledger, model)
    assert len(server.texts) == 16
    assert searched(world)[1] == 0, "the vectors of the last group are not stored"


def test_text_of_a_chosen_model_is_not_sent_before_its_turn(world: World) -> None:
    model = Cheap("one")

    class Turn:
        def __enter__(self) -> None:
            world.ledger.embeddings.setting = "off"

        def __exit__(self, *_: object) -> None: ...

    with pytest.raises(ModelChanged):
        fill(world.ledger, model, turn=Turn)
    assert model.texts == []


@pytest.mark.parametrize("setting", _OTHERS[::2])
def test_changed_model_does_not_replace_the_searched_space(world: World, setting: str) -> None:
    fill(world.ledger, Cheap("old"))
    with pytest.raises(ModelChanged):
        fill(world.ledger, Cheap("new"), lambda _: setattr(world.ledger.embeddings, "setting", setting))
    assert searched(world) == ("old", _NOTES)
    with pytest.raises(ModelChanged):
        fill(world.ledger, Cheap("third"))


def test_model_that_was_changed_back_keeps_what_it_made(world: World) -> None:
    made, model = world.ledger.embeddings, Cheap("one")
    with pytest.raises(ModelChanged):
        fill(world.ledger, model, lambda _: setattr(made, "setting", "off"))
    made.setting = "use"
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES, _NOTES, 0)
    assert len(model.texts) == _NOTES


def test_no_text_of_a_source_is_sent_after_its_consent(world: World, server: _Server) -> None:
    other = world.ledger.sources.put("other", "obsidian", Priority.NORMAL)
    sync = world.begin(other)
    shared = "What 29 says in v1"
    world.ledger.intake.record(sync.id, [Upsert(note("copy.md", content(shared)))], {})
    batch = world.ledger.queue.claim(other.id, 1, owner="worker")
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, shared, title="29")])
    model = load(world.ledger.embeddings.setting)
    server.texts.clear()
    server.on_texts = after(1, lambda: world.ledger.consents.withdraw(world.source.id, ["files"], "anna"))
    fill_partly(world, model)
    assert len(server.texts) == 9, "the text of the other source is still sent"
    assert shared in server.texts[-1]
    assert searched(world)[1] == 1, "of the texts that were sent, only the other source's are stored"


def fill_partly(world: World, model: object) -> None:
    """Fill, although most passages lack a vector at the end."""
    with pytest.raises(MeaningOff, match="most passages"):
        fill(world.ledger, model)  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", _OTHERS)
def test_web_process_sends_no_text_to_a_model_of_before(world: World, server: _Server, setting: str) -> None:
    fill(world.ledger, load(world.ledger.embeddings.setting))
    meaning = MeaningIndex(world.ledger)
    world.ingest(*notes(20, start=100))
    server.texts.clear()
    server.on_texts = after(1, lambda: setattr(world.ledger.embeddings, "setting", setting))
    meaning.embed_few()
    assert len([text for text in server.texts if text != "search"]) == 8
    server.texts.clear()
    meaning.embed_few()
    assert server.texts == []


@pytest.mark.parametrize("mood", ["302", "401", "403", "404", "500", "503", "not json", "wider"])
def test_passing_failure_refuses_no_text_and_keeps_the_vectors(world: World, server: _Server, mood: str) -> None:
    made = world.ledger.embeddings
    made.setting, wanted = "use", made.setting
    fill(world.ledger, Cheap("old"))
    made.setting = wanted
    model = load(wanted)
    server.mood, server.spoils_all = mood, True
    with pytest.raises(MeaningOff, match=r"search by meaning: the model's server .*; start or repair it"):
        fill(world.ledger, model)
    assert searched(world) == ("old", _NOTES)
    assert made.counts(made.wanted()) == EmbeddingCounts(0, _NOTES, 0)
    server.mood = ""
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES, _NOTES, 0)
    assert searched(world) == (model.name, _NOTES)


def test_model_that_fails_is_asked_again_after_growing_pauses(
    world: World, server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, pauses = load(world.ledger.embeddings.setting), list[float]()
    server.mood, server.spoils_all = "503", True

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            server.mood = ""

    monkeypatch.setattr(filling, "_PAUSES", (1, 2, 4, 8))
    monkeypatch.setattr("catchment.search.meaning.fill.time.sleep", sleep)
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES, _NOTES, 0)
    assert pauses == [1, 2, 4]


def test_groups_before_a_failure_are_stored(world: World, server: _Server) -> None:
    model = load(world.ledger.embeddings.setting)

    def fail() -> None:
        server.mood, server.spoils_all = "503", True

    server.on_texts = after(3, fail)
    with pytest.raises(MeaningOff, match="503"):
        fill(world.ledger, model)
    assert searched(world)[1] == 16


def test_text_that_fails_alone_waits_and_is_reported(world: World, server: _Server) -> None:
    world.ingest(note("poison.md"))
    model = load(world.ledger.embeddings.setting)
    server.mood = "500"
    for _ in range(2):
        with pytest.raises(MeaningOff, match="failed on 1 passages, which are tried again each hour"):
            fill(world.ledger, model)
        assert searched(world)[1] == _NOTES, "the others are embedded"
    server.mood = ""
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES + 1, _NOTES + 1, 0)


def test_run_ends_when_a_server_answers_nothing_but_its_probe(
    world: World, server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "_CHUNKS_AT_ONCE", 4)
    model = load(world.ledger.embeddings.setting)
    server.mood = "500"
    server.on_texts = lambda texts: setattr(server, "spoils_all", texts != ["search"])
    server.texts.clear()
    fill_partly(world, model)
    assert len({*server.texts}) == 1 + 4


@pytest.mark.parametrize(("refuses", "is_searched"), [(0.25, True), (0.5, True), (0.75, False), (1.0, False)])
def test_space_that_lacks_most_vectors_is_not_searched(world: World, refuses: float, is_searched: bool) -> None:
    world.ingest(*notes(2, start=_NOTES))
    fill(world.ledger, Cheap("old"))
    new = Cheap("new", refuses=refuses)
    if is_searched:
        fill(world.ledger, new)
        assert searched(world) == ("new", 32 * (1 - refuses))
    else:
        fill_partly(world, new)
        assert searched(world) == ("old", 32)
        assert len(MeaningIndex(world.ledger).related(1, 5)) == 5


def test_passages_without_text_do_not_count_as_lacking(world: World) -> None:
    for _ in world.ledger.purging.items(world.source.id, lambda _: True):
        pass
    assert fill(world.ledger, Cheap("old")) == EmbeddingCounts(0, 0, 0)
    world.ingest(*notes(5), text="  ")
    assert fill(world.ledger, Cheap("new")) == EmbeddingCounts(1, 1, 0)
    assert searched(world) == ("new", 0)
