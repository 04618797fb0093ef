"""The arguments and the answers of the tools. Their fields and descriptions are part of the frozen schemas."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from assistant.untrusted import Untrusted

MOST_BYTES = 20_000
"""Maximum size of an answer, in each of its two forms."""

DocumentNumber = Annotated[int, Field(ge=1, le=2**62, description="Number of the document, from search or related")]


class PartWanted(BaseModel):
    """The part of a result that is wanted. A subclass adds what is searched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=40, description="Maximum number of results; an answer may have fewer")] = 20
    offset: Annotated[int, Field(ge=0, le=10_000_000, description="next_offset of the last answer")] = 0


class SearchArguments(PartWanted):
    query: Annotated[str, Field(min_length=1, max_length=2_000, description="Words, a question, or filters")]
    limit: Annotated[int, Field(ge=1, le=20, description="Maximum number of hits; an answer may have fewer")] = 5


class ReadArguments(PartWanted):
    document: DocumentNumber
    as_of: Annotated[
        AwareDatetime | None,
        Field(description="As it was at this time, such as 2026-11-20T14:00:00Z; also if deleted since"),
    ] = None
    limit: Annotated[
        int, Field(ge=1, le=16_000, description="Maximum number of characters; an answer may have fewer")
    ] = 4_000


class RelatedArguments(PartWanted):
    document: DocumentNumber


class StatusArguments(PartWanted):
    pass


class WhyArguments(PartWanted):
    item: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=1_000,
            description="Path of an item in its source, the end of it, a document's number or title, or a full path; "
            "leave it out to list all items that are held back",
        ),
    ] = None


class PlanArguments(PartWanted):
    source: Annotated[str, Field(min_length=1, max_length=100, description="Name of a source, from status")]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PartOfResult(_Row):
    """A part of a result. `total` counts all of it, in the unit of the offset. `next_offset`: None after the last part."""

    total: int
    truncated: bool
    next_offset: int | None


class FromSharedSources(PartOfResult):
    """A result that could have had more if assistants could use all sources. `withheld`: what may be missing."""

    withheld: str | None


Address = Annotated[str | None, Field(description="Address to cite, which a person can open")]


class FoundPassage(Untrusted):
    """The words of a hit."""

    title: str
    place: Annotated[str, Field(description="Path in the source")]
    author: str | None
    address: Address
    passage: Annotated[str, Field(description="Excerpt, with matched words in [brackets]")]


class FoundDocument(_Row):
    document: int
    source: str
    kind: str
    media_type: str
    date: str | None
    state: Annotated[str | None, Field(description="Of an issue, a pull request or a task: open, closed or merged")]
    found_by: Annotated[
        str, Field(description="words, meaning, or both; recognized: text of a picture, may have errors")
    ]
    copies: int
    untrusted: FoundPassage


class SearchAnswer(FromSharedSources):
    note: str | None
    hits: list[FoundDocument]


class DocumentText(Untrusted):
    """The words of a document."""

    title: str
    place: str
    author: str | None
    address: Address
    people: list[str]
    tags: list[str]
    text: str


class ReadAnswer(PartOfResult):
    document: int
    source: str
    kind: str
    media_type: str
    language: str | None
    date: str | None
    recognized: Annotated[
        float | None, Field(description="Confidence in text that was recognized on pictures: it may have errors")
    ]
    offset: int
    untrusted: DocumentText


class TitleAndPlace(Untrusted):
    """The names of a related document."""

    title: str
    place: str


class NearbyDocument(_Row):
    document: int | None
    relation: str
    source: str
    similarity: float | None
    untrusted: TitleAndPlace


class RelatedAnswer(FromSharedSources):
    document: int
    note: str | None
    related: list[NearbyDocument]


class SourceStatus(_Row):
    source: str
    kind: str
    state: str
    documents: int
    waiting: int
    quarantined: int
    held_deletions: int
    last_sync: str | None
    last_sync_ended: str | None


class StatusAnswer(FromSharedSources):
    running: Annotated[bool, Field(description="Whether Catchment runs and syncs by itself")]
    meaning: str
    pictures: Annotated[str, Field(description="How much of the text on pictures is recognized; the rest is not found")]
    sources: list[SourceStatus]


class ItemPlace(Untrusted):
    """The name of an item."""

    place: str
    moved_from: str | None = None


class ExplainedItem(Untrusted):
    """The name of an item, and the reason of its state, which may repeat a message of its host."""

    place: str
    reason: str


class ItemState(_Row):
    source: str
    kind: str
    state: str
    document: int | None
    first_seen: str
    changed: str
    untrusted: ExplainedItem


class WhyAnswer(FromSharedSources):
    note: str | None
    items: list[ItemState]


class PlannedStep(_Row):
    action: str
    reason: str | None
    bytes: int | None
    untrusted: ItemPlace


class PlanAnswer(PartOfResult):
    source: str
    totals: Annotated[dict[str, int], Field(description="Number of items by action")]
    waiting: Annotated[int, Field(description="Items that earlier syncs left unfinished")]
    note: str
    steps: list[PlannedStep]
