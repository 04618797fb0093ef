"""The results of a search, also over HTTP. Quick to import, so that a command can show those of another process.

`catchment.search` makes it; the library in the ledger describes the hits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from catchment.model import PARTS

MEANING_LATE = "search by meaning: not finished in time"


class Lanes(StrEnum):
    """The ways to search that take part."""

    BOTH = "both"
    WORDS = "words"
    MEANING = "meaning"


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result.

    Attributes:
        snippet: Excerpt with the matched words in [brackets]. The text may have other brackets.
        marks: The start and the end in the snippet of each matched word, with its brackets.
        score: Higher is better.
        conversation: Conversation of a message, None for other documents.
        alike: Number of matching messages in the conversation, including this one, if results are grouped by conversation.
        moment: Time of sending, or of the last change for other documents; aware UTC.
        url: Address of the page on the web.
        number: Number of an issue or pull request.
        state: Its state, such as open.
        file: Name of an attached file, and the title of its message: "plan.pdf in Re: works".
        is_recognized: Whether the snippet was recognized on a picture, and may have errors.
        symbol: Name of the definition around the match in program code.
        lexical_rank, lexical_score, semantic_rank, cosine: As in `Ranked`.
    """

    document: int
    title: str
    source: str
    item: str
    snippet: str
    score: float
    places: tuple[tuple[str, str], ...]
    conversation: int | None
    alike: int
    media_type: str
    author: str | None
    moment: datetime | None
    url: str | None = None
    number: int | None = None
    state: str | None = None
    file: str | None = None
    symbol: str | None = None
    is_recognized: bool = False
    lexical_rank: int | None = None
    lexical_score: float | None = None
    semantic_rank: int | None = None
    cosine: float | None = None
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def archive(self) -> str:
        """The item that it is inside of, or its own if it is in none."""
        return self.item.rpartition(PARTS)[0] or self.item

    @property
    def parts(self) -> Iterator[tuple[str, bool]]:
        """The parts of the snippet in order; True is a matched word, without its brackets."""
        position = 0
        for start, end in self.marks:
            yield self.snippet[position:start], False
            yield self.snippet[start + 1 : end - 1], True
            position = end
        yield self.snippet[position:], False


@dataclass(frozen=True, slots=True)
class Word:
    """A word or phrase of a query, and the words that it was widened to.

    Attributes:
        count: Number of passages and names that contain exactly this word, 0 if unknown.
        forms: Other forms of the word in the library.
        parts: Its compound with a neighbour, and the parts of an identifier.
        corrections: Words nearby, if it is misspelled or probably is.
    """

    text: str
    count: int = 0
    forms: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()

    @property
    def is_misspelled(self) -> bool:
        """Whether only the corrections occur."""
        return bool(self.corrections) and not self.count and not self.forms


@dataclass(frozen=True, slots=True)
class Understood:
    """How a query was understood.

    Attributes:
        words: The wanted words and phrases.
        excluded: The words that must not occur.
        filters: The filters, as written.
        literal: Why its words are meant as they are, such as "phrase"; None for words of a language.
        meaning: The text that was searched by meaning; None if only words were searched.
        floor: The cosine below which a passage may be near by chance.
        is_sentence: A document need not have all the words.
        unknown: Filters with a tag or a folder that no document has.
    """

    words: tuple[Word, ...]
    excluded: tuple[str, ...]
    filters: tuple[str, ...]
    literal: str | None = None
    meaning: str | None = None
    floor: float | None = None
    is_sentence: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """One page of hits, the number of all, and how the query was understood.

    Attributes:
        is_capped: There are more hits than `total`; see `word_index.find`.
        is_partial: Documents with some of the words are hits: of a sentence, or because none has all. The total says little.
        meaning_off: Why meaning did not take part although it should have; None if it did.
        incomplete: Names of sources with passages that are not searched by meaning yet.
        late: The parts of the search that took too long and are missing, such as "search by words".
    """

    hits: list[Hit]
    total: int
    understood: Understood
    is_partial: bool = False
    meaning_off: str | None = None
    is_capped: bool = False
    incomplete: tuple[str, ...] = ()
    late: tuple[str, ...] = ()

    @property
    def folded(self) -> list[tuple[Hit, list[Hit]]]:
        """The hits, each with the others in the same archive, and this. A query that names a folder or archive folds none."""
        in_one = any(filter_.startswith("in:") for filter_ in self.understood.filters)
        rows: dict[tuple[str, str], list[Hit]] = {}
        for hit in self.hits:
            is_alone = in_one or hit.media_type == "message/rfc822"
            rows.setdefault((hit.source, hit.item if is_alone else hit.archive), []).append(hit)
        return [(hits[0], hits[1:]) for hits in rows.values()]

    @property
    def corrected(self) -> list[Word]:
        """The words that have corrections."""
        return [word for word in self.understood.words if word.corrections]

    @property
    def missing(self) -> list[str]:
        """What the hits may lack: parts that took too long or no part, and sources that are not complete yet."""
        lines = [f"{part}: not finished in time" for part in self.late]
        if self.meaning_off:
            lines.append(f"searched by words only; {self.meaning_off}")
        if self.incomplete:
            lines.append(f"search by meaning: not complete yet for {', '.join(self.incomplete)}")
        return lines

    @property
    def notice(self) -> str:
        """A note about the hits in one line, such as a corrected word; empty if they match the query as typed."""
        understood = self.understood
        if not understood.words and not understood.filters:
            problem = "excludes words only" if understood.excluded else "has no words"
            return f"nothing to search for: the query {problem}; example: leak tag:water after:2025"
        if understood.unknown:
            return f"{', '.join(understood.unknown)}: not known; no document has such a tag or folder"
        if self.corrected and self.hits:
            replacements = (
                f"{' or '.join(word.corrections)} {'as well as' if word.count else 'instead of'} {word.text}"
                for word in self.corrected
            )
            return f"showing results for {', '.join(replacements)}"
        if self.is_partial and not understood.is_sentence and any(hit.lexical_rank for hit in self.hits):
            return "no document has all the words; these have some of them or a similar meaning"
        if (
            self.hits
            and understood.words
            and not any(word.count or word.forms or word.parts for word in understood.words)
        ):
            return "no document has these words; these have a similar meaning"
        return ""
