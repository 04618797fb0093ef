"""Sources kept from assistants have no influence on the results that assistants see."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from assistant import sharing
from assistant.mcp_server import call
from assistant.shared_library import AssistantLibrary
from assistant.sharing import Sharing
from catchment.errors import TryAgain
from catchment.ledger import Ledger
from catchment.ledger.library.embeddings import DEFAULT_MODEL
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.search.meaning import meaning_status
from catchment.search.meaning.fill import fill
from catchment.search.meaning.index import MeaningIndex
from catchment.search.meaning.models import Refusal, quantized
from catchment.search.related import related
from catchment.search.results import Results
from catchment.search.search import search
from deployments.sources import placement
from deployments.sources.sources_file import SourceEntry, SourcesFile
from tests.assistant.conftest import add_sources, ingest
from tests.documents import document_named

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
PIN = "4831"
MEAN = 60
"""Mean length of the notes in words, without the link and the tag: in all sources, because the order of hits depends on it."""
COMMON = "the of and meter girder bridge orchard winter pruned leaks pressure switch paint".split()  # noqa: SIM905
SHARED = "rusty corroded hinge lantern harvest barrel quarry 4830 4731 HttpClientFactory Häuser haus Ящик".split()  # noqa: SIM905
KEPT = f"{PIN} rustic corrode hinges lantem harvests barrels quarrel meters ClientFactory clientele Haus ящика Loan".split()


class Letters:
    """A model of the numbers of letters in a text, quicker than a real one."""

    setting, name, dimensions = DEFAULT_MODEL, "letters", 26

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal]:
        return [quantized(self.query(text)) for text in texts]

    def query(self, text: str) -> Sequence[float]:
        return [1 + text.count(letter) for letter in ascii_lowercase]


def _notes(words: list[str], count: int, chance: random.Random, prefix: str) -> dict[str, str]:
    """Return notes of common words, each of which has some of the others, links, and a tag. The mean length is `MEAN`."""
    notes = {}
    length = 0
    for number in range(count):
        length = 2 * MEAN - length if number % 2 else chance.randint(4, 2 * MEAN - 4)
        text = [chance.choice(words if chance.random() < 0.2 else COMMON) for _ in range(length)]
        link = f"[[{prefix} {chance.randrange(count)}]] #{chance.choice(words[:3])}"
        notes[f"{chance.choice(words)}/{prefix} {number}.md"] = f"{' '.join(text)} {link}"
    return notes


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Home]:
    """Two homes with the same shared notes; the first also has a kept diary and kept mail, added before the notes."""
    chance = random.Random(17)
    shared, kept = _notes(SHARED, 30, chance, "note"), _notes(KEPT, 60, chance, "secret")
    copied = next(iter(shared))
    kept["diary/note 3.md"] = "[[note 3]] [[note 4]] the diary about the [[secret 1]]" + " diary" * (MEAN - 7)
    homes = []
    for name in ("with", "without"):
        folder = tmp_path_factory.mktemp(name)
        (folder / "Notes").mkdir()
        home = Home(folder / "home").make()
        settings: dict[str, Any] = {"notes": ("local_files", {"root": folder / "Notes"})}
        if name == "with":
            settings["diary"] = ("local_files", {"root": folder, "assistants": False})
            settings["copies"] = ("local_files", {"root": folder, "assistants": False})
            settings["mail"] = ("imap", {"host": "mail.example.org", "user": "me", "password": "env:NO_PASSWORD"})
        add_sources(home, settings)
        with closing(Ledger.open(home.database_url)) as ledger:
            if name == "with":
                ingest(ledger, "diary", "local_files", kept, language="de")
                ingest(ledger, "copies", "local_files", {copied: shared[copied]})
                ingest(ledger, "mail", "imap", {"INBOX;UIDVALIDITY=1;UID=1": f"{PIN} Offer Offer " * (MEAN // 3 + 1)})
            ingest(ledger, "notes", "local_files", shared)
            fill(ledger, Letters(), lambda _: None)
        if name == "with":
            meaning_status.record(home, "search by meaning: the model failed on 62 passages")
        homes.append(home)
    return homes[0], homes[1]


def _queries() -> Iterator[str]:
    chance = random.Random(35)
    words = [*SHARED, *KEPT, *COMMON, "rustys", "corrded", "lanten", "hing", "4381", "loan", "meterr", "nothing"]
    yield from (PIN, *words[::6])
    yield from (f"{PIN[:n]}0{PIN[n + 1 :]}" for n in range(4))
    for _ in range(12):
        some = chance.choices(words, k=chance.randint(2, 7))
        yield chance.choice(
            (
                " ".join(some),
                " OR ".join(some),
                f'"{some[0]} {some[1]}" {some[-1]}',
                f"{some[0][:3]}* {some[1]}",
                f"{some[0]} -{some[1]}",
                f"{some[0]} tag:{some[1]}",
                f"path:{some[0]} -title:secret {some[1]}",
                f"source:{chance.choice(['diary', 'mail', 'notes', 'note', 'x'])} {some[0]}",
                f"kind:{chance.choice(['imap', 'local_files', 'obsidian'])} {some[0]}",
                f"lang:de {some[0]} OR lang:en",
            )
        )


def _calls(home: Home) -> Iterator[tuple[str, dict[str, Any]]]:
    for query in _queries():
        yield "search", {"query": query, "limit": 20}
    yield "search", {"query": "the OR of", "limit": 20, "offset": 20}
    with closing(Ledger.inspect(home.database_url, only=["notes"])) as ledger:
        titles = sorted(name.title for name in ledger.library.names(ledger.sources.get("notes").id))
        for title in titles[:2]:
            yield "related", {"document": document_named(ledger, title).document}
            yield "read", {"document": document_named(ledger, title).document}
    yield "status", {}
    yield "plan", {"source": "notes"}
    yield "plan", {"source": "diary"}
    for item in ("note 3", "secret 1.md", "INBOX"):
        yield "why", {"item": item}


def _answers(home: Home) -> list[str]:
    """Return each call with its answer, without the numbers of documents, times and fences."""
    library = AssistantLibrary(home)
    found = []
    for tool, given in _calls(home):
        result = call(library, tool, given)
        [content] = result.content
        assert content.type == "text"
        text = json.dumps(
            [result.is_error, result.structured_content, content.text], ensure_ascii=False, sort_keys=True
        )
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+|untrusted id=\w+", "T", text)
        text = re.sub(r'("?document"?:? |\\[nt])\d+(?=\\t|\b)', r"\1N", text)
        text = re.sub(r'"withheld": (null|"[^"]*")|withheld: [^\\]*\\n', "", text)
        text = text.replace(home.path.parent.as_uri(), "file://")
        found.append(f"{tool} {given if tool not in ('read', 'related') else ''}: {text}")
    return found


@pytest.mark.full
def test_every_answer_is_as_without_the_kept_sources(both: tuple[Home, Home]) -> None:
    answers, expected = map(_answers, both)
    assert len(answers) > 30
    for answer, without in zip(answers, expected, strict=True):
        assert answer == without


def test_meaning_and_scores_are_as_without_the_kept_sources(
    both: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the figures that assistants see only as an order: scores, cosines, counts of words, and the floor."""
    monkeypatch.setattr("catchment.search.meaning.index.load", lambda _: Letters())
    found: list[list[Any]] = []
    scores: list[list[float]] = []
    model: MeaningIndex | None = None
    for home in both:
        with closing(Ledger.inspect(home.database_url, only=["notes"])) as ledger:
            meaning = model = MeaningIndex(ledger, model)
            results = [
                search(ledger, query, NOW, meaning=meaning) for query in list(_queries())[::3] if ":" not in query
            ]
            shown = [document_named(ledger, f"note {number}") for number in range(10)]
            near = [[(hit.title, hit.cosine) for hit in related(ledger, meaning, one.content_id, 20)] for one in shown]
            scores.append([hit.score for one in results for hit in one.hits])
            found.append([*map(_comparable, results), near, ledger.embeddings.counts(ledger.embeddings.searched())])
    assert found[0] == found[1]
    # The mean length of all passages is a part of each score by words.
    assert scores[0] == pytest.approx(scores[1], abs=0.005)


def _comparable(results: Results) -> Any:
    hits = [(hit.title, hit.item, hit.lexical_rank, hit.semantic_rank) for hit in results.hits]
    return hits, results.total, results.understood, results.is_partial, results.meaning_off


def test_limited_ledger_ranks_as_the_whole_one(both: tuple[Home, Home]) -> None:
    with (
        closing(Ledger.inspect(both[1].database_url)) as whole,
        closing(Ledger.inspect(both[1].database_url, only=["notes"])) as limited,
    ):
        for query in ("rusty hinge", "girder quarry", "lantern", '"the girder"', "harvest OR barrel"):
            first, other = (search(one, query, NOW, limit=50) for one in (whole, limited))
            assert (first.total, first.understood) == (other.total, other.understood)
            top = {hit.document for hit in first.hits[:10]}
            assert len(top & {hit.document for hit in other.hits[:10]}) >= min(7, len(top))


def test_limited_ledger_changes_nothing(both: tuple[Home, Home]) -> None:
    from catchment.errors import ReadOnly

    with closing(Ledger.inspect(both[0].database_url, only=["notes"])) as ledger, pytest.raises(ReadOnly):
        ledger.sources.put("new", "local_files", ledger.sources.get("notes").priority)


def test_source_of_another_host_is_shared_only_if_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, barn = Home(tmp_path / "attic").make(), Home(tmp_path / "barn").make()
    Membership("attic", "https://library.lan", "file:/login").record(home)
    add_sources(
        barn, {name: ("local_files", {"root": tmp_path, "assistants": name == "notes"}) for name in ("notes", "diary")}
    )
    answers = [{one.name: one for one in SourcesFile.load(barn.sources_file).entries}]

    def elsewhere(*_: object) -> Mapping[str, SourceEntry]:
        if not answers:
            raise TryAgain("the server does not answer")
        return answers[0]

    monkeypatch.setattr(placement, "elsewhere", elsewhere)
    monkeypatch.setattr(sharing, "running", lambda _: object())
    monkeypatch.setattr(sharing, "_FRESH_SECONDS", 1e-9)
    shared = Sharing(home)
    assert ([*shared.shared()], shared.kept()) == (["notes"], ["diary"])
    answers.clear()
    assert ([*shared.shared()], shared.kept()) == ([], [])
