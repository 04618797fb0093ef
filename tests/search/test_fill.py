"""Making embeddings with a server that fails, or while another decision about the model or a source is taken."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import func, select

from catchment.errors import MeaningOff, ModelChanged
from catchment.ledger import EmbeddingCounts, Ledger
from catchment.ledger.db.schema import embeddings, title_embeddings
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


@contextmanager
def opened(file: Path) -> Iterator[World]:
    url, clock = f"sqlite:///{file}", Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        yield World(url, clock, ledger)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with some notes, to copy."""
    with opened(file := tmp_path_factory.mktemp("library") / "ledger.db") as world:
        world.ingest(*notes(_NOTES))
    return file


@pytest.fixture
def world(library: Path, tmp_path: Path) -> Iterator[World]:
    with opened(Path(shutil.copy2(library, tmp_path))) as world:
        yield world


@pytest.fixture
def server(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    """The server of the wanted model. Failures are final at once, and names are sent in small groups too."""
    monkeypatch.setattr(filling, "_PAUSES", ())
    monkeypatch.setattr(filling, "_TITLES_AT_ONCE", 8)
    with serving() as server:
        world.ledger.embeddings.setting = address(server)
        yield server


def searched(world: World) -> tuple[str, int, int]:
    """Return the model of the searched space, and the numbers of its vectors: of passages, and of names."""
    space = world.ledger.embeddings.searched()
    assert space is not None
    with world.ledger._store.read() as reading:
        passages, names = (
            reading.execute(
                select(func.count()).where(table.c.space_id == space.id, table.c.vector.is_not(None))
            ).scalar_one()
            for table in (embeddings, title_embeddings)
        )
    return space.model, passages, names


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
@pytest.mark.parametrize(("groups", "sent", "stored"), [(2, 16, (0, 8)), (6, _NOTES + 16, (0, _NOTES))])
def test_no_text_is_sent_after_the_model_was_changed(
    world: World, server: _Server, setting: str, groups: int, sent: int, stored: tuple[int, int]
) -> None:
    made = world.ledger.embeddings
    model = load(made.setting)
    server.texts.clear()
    server.on_texts = after(groups, lambda: setattr(made, "setting", setting))
    with pytest.raises(ModelChanged):
        fill(world.ledger, model)
    assert len(server.texts) == sent
    assert searched(world)[1:] == stored, "the vectors of the last group are not stored"


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
    assert searched(world) == ("old", _NOTES, _NOTES)
    with pytest.raises(ModelChanged):
        fill(world.ledger, Cheap("third"))


def test_model_that_was_changed_back_keeps_what_it_made(world: World) -> None:
    made, model = world.ledger.embeddings, Cheap("one")
    with pytest.raises(ModelChanged):
        fill(world.ledger, model, lambda _: setattr(made, "setting", "off"))
    made.setting = "use"
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES, _NOTES, 0)
    assert len(model.texts) == 2 * _NOTES


@pytest.mark.parametrize("groups", [1, 5])
def test_no_text_of_a_source_is_sent_after_its_consent(world: World, server: _Server, groups: int) -> None:
    other = world.ledger.sources.put("other", "obsidian", Priority.NORMAL)
    sync = world.begin(other)
    shared = "What 29 says in v1"
    world.ledger.intake.record(sync.id, [Upsert(note("copy.md", content(shared)))], {})
    batch = world.ledger.queue.claim(other.id, 1, owner="worker")
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, shared, title="the copy")])
    model = load(world.ledger.embeddings.setting)
    server.texts.clear()
    server.on_texts = after(groups, lambda: world.ledger.consents.withdraw(world.source.id, ["files"], "anna"))
    fill_partly(world, model)
    if groups == 1:
        assert server.texts[8:] == ["the copy", f"Heading\n{shared}"], "what the other source has is still sent"
        assert searched(world)[1:] == (1, 1), "of the texts that were sent, only the other source's are stored"
    else:
        assert len(server.texts) == _NOTES + 1 + 9
        assert shared in server.texts[-1]
        assert searched(world)[1:] == (1, _NOTES + 1)


def fill_partly(world: World, model: object) -> None:
    """Fill, although most passages lack a vector at the end."""
    with pytest.raises(MeaningOff, match="most passages"):
        fill(world.ledger, model)  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", _OTHERS)
@pytest.mark.parametrize(("groups", "sent"), [(1, 8), (4, 28)])
def test_web_process_sends_no_text_to_a_model_of_before(
    world: World, server: _Server, setting: str, groups: int, sent: int
) -> None:
    fill(world.ledger, load(world.ledger.embeddings.setting))
    meaning = MeaningIndex(world.ledger)
    world.ingest(*notes(20, start=100))
    server.texts.clear()
    server.on_texts = after(groups, lambda: setattr(world.ledger.embeddings, "setting", setting))
    meaning.embed_few()
    assert len([text for text in server.texts if text != "search"]) == sent
    server.texts.clear()
    meaning.embed_few()
    assert server.texts == []


@pytest.mark.parametrize("mood", ["302", "401", "503", "not json", "wider"])
def test_passing_failure_refuses_no_text_and_keeps_the_vectors(world: World, server: _Server, mood: str) -> None:
    made = world.ledger.embeddings
    made.setting, wanted = "use", made.setting
    fill(world.ledger, Cheap("old"))
    made.setting = wanted
    model = load(wanted)
    server.mood, server.spoils_all = mood, True
    with pytest.raises(MeaningOff, match=r"search by meaning: the model's server .*; start or repair it"):
        fill(world.ledger, model)
    assert searched(world) == ("old", _NOTES, _NOTES)
    assert made.counts(made.wanted()) == EmbeddingCounts(0, _NOTES, 0)
    server.mood = ""
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES, _NOTES, 0)
    assert searched(world) == (model.name, _NOTES, _NOTES)


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
    # Other threads of this process sleep, too.
    monkeypatch.setattr(filling, "time", SimpleNamespace(sleep=sleep))
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES, _NOTES, 0)
    assert pauses == [1, 2, 4]


def test_progress_counts_passages_that_came_later(world: World) -> None:
    reports: list[EmbeddingCounts] = []

    class Slow(Cheap):
        def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
            if len(self.texts) == _NOTES:  # after the titles
                world.ingest(*notes(20, start=100))
            return super().passages(texts)

    fill(world.ledger, Slow("slow"), reports.append)
    assert [(counts.done, counts.total) for counts in reports] == [(_NOTES, _NOTES + 20), (_NOTES + 20, _NOTES + 20)]


@pytest.mark.parametrize(("groups", "stored"), [(3, (0, 16)), (4 + 3, (16, _NOTES))])
def test_groups_before_a_failure_are_stored(
    world: World, server: _Server, groups: int, stored: tuple[int, int]
) -> None:
    model = load(world.ledger.embeddings.setting)

    def fail() -> None:
        server.mood, server.spoils_all = "503", True

    server.on_texts = after(groups, fail)
    with pytest.raises(MeaningOff, match="503"):
        fill(world.ledger, model)
    assert searched(world)[1:] == stored
    server.on_texts, server.mood = lambda _: None, ""
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES, _NOTES, 0)
    assert searched(world)[1:] == (_NOTES, _NOTES)


def test_text_that_fails_alone_waits_and_is_reported(world: World, server: _Server) -> None:
    world.ingest(note("poison.md"))
    model = load(world.ledger.embeddings.setting)
    server.mood = "500"
    for _ in range(2):
        with pytest.raises(MeaningOff, match="failed on 2 texts, which are tried again each hour"):
            fill(world.ledger, model)
        assert searched(world)[1:] == (_NOTES, _NOTES), "the others are embedded"
    server.mood = ""
    assert fill(world.ledger, model) == EmbeddingCounts(_NOTES + 1, _NOTES + 1, 0)
    assert searched(world)[1:] == (_NOTES + 1, _NOTES + 1)


def test_names_that_fail_hold_up_no_other(world: World, server: _Server) -> None:
    for n in range(5):
        world.see(note(f"poison {n}.md"))
        batch = world.claim()
        world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, f"Harmless {n}", title=f"poison {n}")])
    world.ingest(*notes(20, start=100))
    server.mood = "500"
    with pytest.raises(MeaningOff, match="failed on 5 texts"):
        fill(world.ledger, load(world.ledger.embeddings.setting))
    assert searched(world)[1:] == (_NOTES + 25, _NOTES + 20)


def test_refused_name_is_not_sent_again(world: World, server: _Server) -> None:
    world.ingest(note("poison.md"), text="Harmless")
    server.mood = "422"
    model = load(world.ledger.embeddings.setting)
    fill(world.ledger, model)
    assert searched(world)[1:] == (_NOTES + 1, _NOTES)
    server.texts.clear()
    fill(world.ledger, model)
    assert server.texts == []


def test_run_ends_when_a_server_answers_nothing_but_its_probe(
    world: World, server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "_CHUNKS_AT_ONCE", 4)
    monkeypatch.setattr(filling, "_TITLES_AT_ONCE", 4)
    model = load(world.ledger.embeddings.setting)
    server.mood = "500"
    server.on_texts = lambda texts: setattr(server, "spoils_all", texts != ["search"])
    server.texts.clear()
    fill_partly(world, model)
    assert len({*server.texts}) == 1 + 4 + 4


@pytest.mark.parametrize(("refuses", "is_searched"), [(0.25, True), (0.5, True), (0.75, False), (1.0, False)])
def test_space_that_lacks_most_vectors_is_not_searched(world: World, refuses: float, is_searched: bool) -> None:
    world.ingest(*notes(2, start=_NOTES))
    fill(world.ledger, Cheap("old"))
    new = Cheap("new", refuses=refuses)
    if is_searched:
        fill(world.ledger, new)
        assert searched(world) == ("new", 32 * (1 - refuses), 32 * (1 - refuses))
    else:
        fill_partly(world, new)
        assert searched(world) == ("old", 32, 32)
        assert len(MeaningIndex(world.ledger).related(1, 5)) == 5


def test_passages_without_text_do_not_count_as_lacking(world: World) -> None:
    for _ in world.ledger.purging.items(world.source.id, lambda _: True):
        pass
    assert fill(world.ledger, Cheap("old")) == EmbeddingCounts(0, 0, 0)
    world.ingest(*notes(5), text="  ")
    assert fill(world.ledger, Cheap("new")) == EmbeddingCounts(1, 1, 0)
    assert searched(world) == ("new", 0, 5)
