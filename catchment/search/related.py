"""Documents related to a document: by links, as parts of one conversation, as copies, and by a similar meaning."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catchment.ledger import Ledger, Named, Query, Ranked, Shown
from catchment.model import LinkKind, holder_of
from catchment.search.present import present
from catchment.search.results import Hit

if TYPE_CHECKING:
    from catchment.search.meaning.index import MeaningIndex

SAME = 0.9
"""Cosine of near-duplicates. One word replaced in a sentence of fourteen yields 0.92, a sentence added to it 0.83."""


@dataclass(frozen=True, slots=True)
class RelatedDocument:
    """A related document; `document` is None for a copy, and for an attachment without a document.

    `cosine`: the similarity of documents found by meaning.
    """

    relation: str
    document: int | None
    title: str
    source: str
    item: str
    cosine: float | None = None


def relations(ledger: Ledger, shown: Shown) -> list[RelatedDocument]:
    """Return the links to and from a document, its conversation and attachments, and its copies."""
    others = [*_conversation(shown), *_attachments(ledger, shown), *_copies(shown)]
    if shown.mentions or any(link.kind is not LinkKind.URL for link in shown.links):
        source = ledger.sources.get(shown.source).id
        names = ledger.library.names(source)
        return [*_linked(shown, {name.locator: name for name in names}, files(ledger, source, names)), *others]
    return others


def similar(hits: Iterable[Hit], known: Collection[int | None]) -> list[RelatedDocument]:
    """Return the hits of `related`, except known documents."""
    return [
        RelatedDocument(
            "near-duplicate" if (hit.cosine or 0) >= SAME else "similar",
            hit.document,
            hit.title,
            hit.source,
            hit.item,
            None if hit.cosine is None else round(hit.cosine, 4),
        )
        for hit in hits
        if hit.document not in known
    ]


def related(ledger: Ledger, meaning: MeaningIndex, content_id: int, limit: int) -> list[Hit]:
    """Return the documents whose meaning is nearest to a content, best first. Loads no model. Raises MeaningOff."""
    floor = meaning.chance.floor
    near = [hit for hit in meaning.related(content_id, limit) if hit.cosine >= floor]
    ranked = [
        Ranked(hit.content_id, hit.chunk_id, hit.cosine, semantic_rank=rank, cosine=hit.cosine, part=hit.part)
        for rank, hit in enumerate(near, 1)
    ]
    return present(ledger, ranked, Query((), ()), ())


def files(ledger: Ledger, source_id: int, names: Iterable[Named]) -> set[str]:
    """Return all files of a source, including those without a document: a link may lead to a picture.

    `names`: of its documents. A listing has no files inside of others.
    """
    known = ledger.intake.known(source_id)
    listed = (locator for container in known.containers() for locator in known.within(container))
    return {*listed, *(named.locator for named in names)}


def _linked(shown: Shown, named: Mapping[str, Named], paths: Iterable[str]) -> list[RelatedDocument]:
    from catchment.content.extract.vault import VaultIndex

    index = VaultIndex(paths)
    written = [link for link in shown.links if link.kind is not LinkKind.URL and link.target]
    targets = dict.fromkeys(path for link in written if (path := index.resolve(link.target, shown.item)))
    sources = dict.fromkeys(item for item, link in shown.mentions if index.resolve(link.target, item) == shown.item)
    pairs = [("links to", path) for path in targets] + [("linked from", item) for item in sources]
    return [
        RelatedDocument(relation, named[item].document, named[item].title, shown.source, item)
        for relation, item in pairs
        if item in named and item != shown.item
    ]


def _conversation(shown: Shown) -> Iterator[RelatedDocument]:
    is_earlier = True
    for message in shown.conversation:
        if message.document == shown.document:
            is_earlier = False
            continue
        relation = "earlier in the conversation" if is_earlier else "later in the conversation"
        yield RelatedDocument(relation, message.document, message.title, message.source, message.item)


def _attachments(ledger: Ledger, shown: Shown) -> Iterator[RelatedDocument]:
    for holder in ledger.library.at(ledger.sources.get(shown.source).id, [holder_of(shown.item)]):
        yield RelatedDocument("attached to", holder.document, holder.title, shown.source, holder.locator)
    for file in shown.attached:
        yield RelatedDocument("attached", file.document, file.name, shown.source, file.locator(shown.item))


def _copies(shown: Shown) -> Iterator[RelatedDocument]:
    for copy in shown.copies:
        if copy.document != shown.document:
            yield RelatedDocument("same content", copy.document, copy.title, copy.source, copy.item)
