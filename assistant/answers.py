"""The arguments and the answers of the tools. Their fields and descriptions are part of the frozen schemas."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assistant.untrusted import Untrusted

TEXT_BYTES = 16_000
"""Maximum size of the text in an answer, so that no answer is larger than 20 kB in a form."""

Offset = Annotated[int, Field(ge=0, le=10_000_000)]
DocumentNumber = Annotated[int, Field(ge=1, le=2**62, description="Number of the document, from search or related")]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SearchArguments(_Arguments):
    query: Annotated[str, Field(min_length=1, max_length=2_000, description="Words, a question, or filters")]
    limit: Annotated[int, Field(ge=1, le=20, description="Maximum number of hits")] = 5
    offset: Annotated[Offset, Field(description="Position of the first hit: next_offset of the last answer")] = 0


class ReadArguments(_Arguments):
    document: DocumentNumber
    offset: Annotated[Offset, Field(description="First character: next_offset of the last answer")] = 0
    limit: Annotated[int, Field(ge=1, le=TEXT_BYTES, description="Maximum number of characters")] = 4_000


class RelatedArguments(_Arguments):
    document: DocumentNumber
    limit: Annotated[int, Field(ge=1, le=40, description="Maximum number of documents")] = 10
    offset: Annotated[Offset, Field(description="Position of the first one: next_offset of the last answer")] = 0


class StatusArguments(_Arguments):
    pass


class WhyArguments(_Arguments):
    item: Annotated[
        str,
        Field(min_length=1, max_length=1_000, description="Path of an item in its source, the end of it, or a name"),
    ]


class PlanArguments(_Arguments):
    source: Annotated[str, Field(min_length=1, max_length=100, description="Name of a source, from status")]
    limit: Annotated[int, Field(ge=1, le=40, description="Maximum number of steps")] = 20
    offset: Annotated[Offset, Field(description="Position of the first step: next_offset of the last answer")] = 0


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FoundPassage(Untrusted):
    """The words of a hit."""

    title: str
    place: Annotated[str, Field(description="Path in the source")]
    author: str | None
    passage: Annotated[str, Field(description="Excerpt, with matched words in [brackets]")]


class FoundDocument(_Answer):
    document: int
    source: str
    kind: str
    media_type: str
    date: str | None
    found_by: Annotated[str, Field(description="words, meaning, or both")]
    copies: int
    untrusted: FoundPassage


class SearchAnswer(_Answer):
    total: int
    truncated: bool
    next_offset: int | None
    note: str | None
    hits: list[FoundDocument]


class DocumentText(Untrusted):
    """The words of a document."""

    title: str
    place: str
    author: str | None
    people: list[str]
    tags: list[str]
    text: str


class ReadAnswer(_Answer):
    document: int
    source: str
    kind: str
    media_type: str
    language: str | None
    date: str | None
    characters: Annotated[int, Field(description="Length of the whole text")]
    offset: int
    truncated: bool
    next_offset: int | None
    untrusted: DocumentText


class TitleAndPlace(Untrusted):
    """The names of a related document."""

    title: str
    place: str


class NearbyDocument(_Answer):
    document: int | None
    relation: str
    source: str
    similarity: float | None
    untrusted: TitleAndPlace


class RelatedAnswer(_Answer):
    document: int
    total: int
    truncated: bool
    next_offset: int | None
    note: str | None
    related: list[NearbyDocument]


class SourceStatus(_Answer):
    source: str
    kind: str
    state: str
    documents: int
    waiting: int
    quarantined: int
    held_deletions: int
    last_sync: str | None
    last_sync_ended: str | None


class StatusAnswer(_Answer):
    running: Annotated[bool, Field(description="Whether Catchment runs and syncs by itself")]
    meaning: str
    kept_from_assistants: Annotated[int, Field(description="Number of sources that assistants may not use")]
    truncated: bool
    sources: list[SourceStatus]


class ItemPlace(Untrusted):
    """The name of an item."""

    place: str
    moved_from: str | None = None


class ItemReason(_Answer):
    source: str
    kind: str
    state: str
    reason: str
    document: int | None
    first_seen: str
    changed: str
    untrusted: ItemPlace


class WhyAnswer(_Answer):
    total: int
    truncated: bool
    note: str | None
    items: list[ItemReason]


class PlannedStep(_Answer):
    action: str
    reason: str | None
    bytes: int | None
    untrusted: ItemPlace


class PlanAnswer(_Answer):
    source: str
    totals: Annotated[dict[str, int], Field(description="Number of items by action")]
    waiting: Annotated[int, Field(description="Items that earlier syncs left unfinished")]
    total: int
    truncated: bool
    next_offset: int | None
    note: str
    steps: list[PlannedStep]
