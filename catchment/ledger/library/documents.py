"""The library: the documents, their extracted data, and the matches of a query."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal, select

from catchment.errors import NotFound
from catchment.ledger.db.database import AnyRow, Reading, Store, among, as_map, from_json, maybe_time
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.lookup import before, cut, key_of, prefix_condition
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import (
    before_images,
    contents,
    doc_folders,
    doc_tags,
    documents,
    entities,
    items,
    links,
    mails,
    sources,
)
from catchment.ledger.library import conversation_index, mail_relations, matches, page_texts, query_sql
from catchment.ledger.library.contents import file_name
from catchment.ledger.library.mail_relations import shown_title
from catchment.ledger.library.matches import Match, Task
from catchment.ledger.library.query import Filter, FilterName, Query
from catchment.ledger.library.word_index import folded_path
from catchment.model import WARNING, Document, Entity, EntityKind, Link, LinkKind, StoredDocument
from catchment.records.rows import ContentFacts, MessageBody, Named, Ranked, Ranking, Shown
from catchment.records.standing import ListPage

_LIVE = documents.c.removed_at.is_(None)
_NAMES_AT_ONCE = 50
_MOST_CALLED = 2_000
_OPENING = 400
"""Characters of a text in a list."""
_MOST_NAMES = 20_000
"""Tags or folders that are compared with a misspelled one."""


@dataclass(frozen=True, slots=True)
class LatestDocument:
    """A document in the order of time. `moment`: when it was sent or last changed. `opening`: the beginning of its text."""

    document: int
    title: str
    source: str
    kind: str
    item: str
    media_type: str
    author: str | None
    moment: datetime
    opening: str


class Library:
    """The current documents of all sources."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def contents(self, hashes: Collection[str], normalizer: str) -> dict[str, ContentFacts]:
        """Return the stored contents among these, for one normalizer, with their title and modification time, by hash."""
        facts = select(contents.c.hash, contents.c.title, contents.c.modified).where(
            contents.c.normalizer == normalizer
        )
        with self._store.read() as reading:
            return {
                digest: ContentFacts(title, maybe_time(modified))
                for digest, title, modified in reading.execute(facts.where(among(reading, contents.c.hash, hashes)))
            }

    def stored(self, item_ids: Collection[int]) -> dict[int, StoredDocument]:
        """Return the documents of these items, by item. Items without one are omitted."""
        with self._store.read() as reading:
            rows = reading.execute(_documents().where(among(reading, documents.c.item_id, item_ids)))
            return {
                row.item_id: StoredDocument(
                    content_of(row),
                    row.hash,
                    row.normalizer,
                    row.title,
                    maybe_time(row.modified),
                    from_json(row.metadata) or {},
                )
                for row in rows
            }

    def normalizers(self, item_ids: Collection[int]) -> dict[int, str]:
        """Return the normalizer of each item's document. Items without a document are omitted."""
        understood = (
            select(documents.c.item_id, contents.c.normalizer)
            .join(contents, contents.c.id == documents.c.content_id)
            .where(_LIVE)
        )
        with self._store.read() as reading:
            return as_map(reading.execute(understood.where(among(reading, documents.c.item_id, item_ids))))

    def rank(
        self,
        query: Query,
        *,
        limit: int,
        offset: int = 0,
        by_conversation: bool = False,
        within: Collection[int] | None = None,
    ) -> Ranking:
        """Return the contents that match a query by its words, best first, or without words the latest first.

        `by_conversation` returns only the best of each conversation. `within`: only these contents.
        """
        with self._store.read() as reading:
            return query_sql.rank(reading, query, limit, offset, by_conversation=by_conversation, within=within)

    def other_names(self, condition: Filter) -> list[str] | None:
        """Return tags or folders of the library, or None if that of the filter is among them."""
        name = (doc_tags.c.tag if condition.name is FilterName.TAG else doc_folders.c.folder).label("name")
        with self._store.read() as reading:
            if reading.execute(select(name).where(name == folded_path(condition.values[0])).limit(1)).first():
                return None
            return list(reading.execute(select(name).distinct().limit(_MOST_NAMES)).scalars())

    def beginning(self, kind: str, start: str, most: int) -> list[str]:
        """Return names that begin with a text: each "tag", each folder ("in"), or of any other kind titles and paths."""
        paths = select(items.c.locator).join(documents, documents.c.item_id == items.c.id)
        selects = [select(documents.c.title).where(_LIVE), paths.where(_LIVE)]
        if kind in (FilterName.TAG, FilterName.IN):
            selects = [select(doc_tags.c.tag if kind == FilterName.TAG else doc_folders.c.folder)]
            start = folded_path(start)
        beginnings: set[str] = set()
        with self._store.read() as reading:
            for names in selects:
                (name,) = names.selected_columns
                query = names.where(prefix_condition(reading, name, start)).distinct().order_by(name).limit(most)
                beginnings.update(reading.execute(query).scalars())
        return sorted(beginnings)[:most]

    def matches(self, ranked: Sequence[Ranked], query: Query) -> list[Match]:
        """Return the data of hits for ranked contents, in their order. Omits contents that were deleted meanwhile."""
        with self._store.read() as reading:
            return matches.matches(reading, ranked, query)

    def tasks(self, filters: Sequence[Filter]) -> list[Task]:
        """Return the tasks in the documents that pass these filters; tasks of several copies once."""
        with self._store.read() as reading:
            return matches.tasks(reading, filters)

    def words(self, ranked: Sequence[Ranked]) -> dict[int, tuple[str, str]]:
        """Return the folded words of each ranked content, between spaces: of its names and heading, and of its best chunk."""
        with self._store.read() as reading:
            return matches.words(reading, ranked)

    def copies(self, content_ids: Collection[int]) -> dict[int, list[int]]:
        """Return the contents that are the same message as each of these, with itself, in order; of others nothing."""
        with self._store.read() as reading:
            return conversation_index.copies(reading, content_ids)

    def in_conversations(self, conversations: Collection[int]) -> list[int]:
        """Return the contents of all messages in these conversations."""
        with self._store.read() as reading:
            members = select(mails.c.content_id).where(among(reading, mails.c.thread, conversations))
            return list(reading.execute(members).scalars())

    def document(self, document_id: int, mentions: int | None = None) -> Shown:
        """Return a document by ID, with at most so many mentions. Raises NotFound."""
        with self._store.read() as reading:
            row = reading.execute(_documents().where(documents.c.id == document_id)).first()
            if row is None:
                raise NotFound(f"document {document_id}: not found; `catchment search` shows document IDs")
            return _shown(reading, row, mentions)

    def names(self, source_id: int) -> list[Named]:
        """Return the names of a source's documents, by locator."""
        with self._store.read() as reading:
            return _named(reading, documents.c.source_id == source_id)

    def at(self, source_id: int, locators: Collection[str]) -> list[Named]:
        """Return the names of the documents of these items, by locator."""
        with self._store.read() as reading:
            there = (items.c.source_id == source_id) & (items.c.state != "deleted")
            return _named(reading, there & among(reading, items.c.locator, locators))

    def called(self, source_id: int, file_names: Iterable[str]) -> list[Named]:
        """Return the names of the documents with these file names, or these and `.md`; and few others, as candidates.

        Reads the index of names: with 100,000 documents, reading all takes a second.
        """
        called: dict[int, Named] = {}
        with self._store.read() as reading:
            for part in in_parts({file_name(name) for name in file_names}, _NAMES_AT_ONCE):
                phrases = [phrase for name in part for phrase in (f"{name}.md", name) if "." in phrase]
                # The addition keeps SQLite from reading all documents of the source.
                where = documents.c.source_id + 0 == source_id, query_sql.with_path(reading, phrases, _MOST_CALLED)
                called |= {named.document: named for named in _named(reading, *where)}
        return sorted(called.values(), key=lambda named: named.locator)

    def messages(self, document_ids: Collection[int]) -> dict[int, MessageBody]:
        """Return the contents of messages with their attachments, by document."""
        with self._store.read() as reading:
            rows = reading.execute(_documents().where(among(reading, documents.c.id, document_ids))).all()
            places = {row.id: (row.source_id, row.locator) for row in rows}
            content = {places[row.id]: content_of(row) for row in rows}
            attached = mail_relations.attached(reading, content)
        return {number: MessageBody(content[place], attached.get(place, ())) for number, place in places.items()}

    def links(self, source_id: int) -> Iterator[tuple[int, str, Link]]:
        """Yield the links in a source's documents as (item ID, locator, link), ordered by locator."""
        with self._store.read() as reading:
            for row in reading.execute(
                _links().where(documents.c.source_id == source_id).execution_options(yield_per=2_000)
            ):
                yield row.item_id, row.locator, _link(row)

    def latest(
        self, *, after: str | None = None, limit: int = 50, without: Collection[str] = ()
    ) -> ListPage[LatestDocument]:
        """Return the documents in parts, latest first. Omits those without a time, or with a media type of `without`."""
        key = documents.c.moment, documents.c.content_id, documents.c.id
        opening = func.substr(contents.c.text, 1, _OPENING)
        # By content, because an index has the types.
        omitted = select(contents.c.id).where(contents.c.media_type.in_(without))
        shown = _LIVE & documents.c.moment.is_not(None) & documents.c.content_id.not_in(omitted)
        part = (
            select(*key, documents.c.title, sources.c.name, sources.c.kind, items.c.locator, contents.c.media_type)
            .add_columns(contents.c.author, documents.c.metadata, opening.label("opening"))
            .join(items, items.c.id == documents.c.item_id)
            .join(sources, sources.c.id == documents.c.source_id)
            .join(contents, contents.c.id == documents.c.content_id)
            .where(shown, before(after, *key))
            .order_by(*(column.desc() for column in key))
            .limit(limit + 1)
        )
        with self._store.read() as reading:
            rows = reading.execute(part).all()
            total = reading.execute(select(func.count()).select_from(documents).where(shown)).scalar_one()
        return cut(rows, limit, total, _latest, lambda row: key_of(row.moment, row.content_id, row.id))

    def types(self, source_id: int | None = None) -> dict[str, int]:
        """Return the number of documents by media type, of a source or of all; most first."""
        live = _LIVE & (documents.c.content_id == contents.c.id)
        if source_id is not None:
            live &= documents.c.source_id == source_id
        # By content, because an index has the types. A text lies between the number and the type in a row.
        number = func.sum(select(func.count()).select_from(documents).where(live).scalar_subquery())
        statement = select(contents.c.media_type, number).group_by(contents.c.media_type)
        rows = self._store.execute(statement).tuples().all()
        return {kind: int(count) for kind, count in sorted(rows, key=lambda row: (-row[1], row[0])) if count}

    def sizes(self) -> dict[str, int]:
        """Return the number of documents of each source, by name."""
        live = select(documents.c.source_id, func.count().label("number")).where(_LIVE).group_by(documents.c.source_id)
        counted = live.subquery()
        number = func.coalesce(counted.c.number, 0)
        statement = (
            select(sources.c.name, number)
            .join_from(sources, counted, counted.c.source_id == sources.c.id, isouter=True)
            .where(sources.c.state != "removed")
        )
        return as_map(self._store.execute(statement))


def _latest(row: AnyRow) -> LatestDocument:
    author = matches.author_of(row.author, from_json(row.metadata))
    title = shown_title(row.title, row.locator)
    return record(LatestDocument, row, document=row.id, title=title, source=row.name, item=row.locator, author=author)


CONTENT = (
    contents.c.hash,
    contents.c.normalizer,
    contents.c.text,
    contents.c.media_type,
    contents.c.title.label("own_title"),
    contents.c.language,
    contents.c.author,
    contents.c.created,
    contents.c.modified.label("own_modified"),
    contents.c.properties.label("own_properties"),
    contents.c.warnings,
)
"""The columns of `content_of`."""


def _documents() -> Select[Any]:
    return (
        select(documents, items.c.locator, items.c.attributes, sources.c.name.label("source"), *CONTENT)
        .join_from(documents, items, items.c.id == documents.c.item_id)
        .join(sources, sources.c.id == documents.c.source_id)
        .join(contents, contents.c.id == documents.c.content_id)
        .where(_LIVE)
    )


def _named(reading: Reading, *where: ColumnElement[bool]) -> list[Named]:
    statement = (
        select(items.c.id, items.c.locator, documents.c.title, documents.c.id, documents.c.aliases)
        .join_from(documents, items, items.c.id == documents.c.item_id)
        .where(_LIVE, *where)
        .order_by(items.c.locator)
    )
    return [
        Named(item_id, locator, shown_title(title, locator), document_id, tuple(aliases.split("\n")) if aliases else ())
        for item_id, locator, title, document_id, aliases in reading.execute(statement)
    ]


def content_of(row: AnyRow) -> Document:
    """Return the document made from the content alone, without the additions of its item."""
    modified, properties = maybe_time(row.own_modified), from_json(row.own_properties)
    return record(Document, row, title=row.own_title, modified=modified, properties=properties, pictures=())


def _shown(reading: Reading, row: AnyRow, most_mentions: int | None) -> Shown:
    mentions = _links_called(file_name(row.locator), row.source_id)
    if most_mentions is not None:
        # In the order of the index: tens of thousands of links to an index page are not sorted.
        mentions = mentions.order_by(None).order_by(links.c.content_id, links.c.position).limit(most_mentions)
    place = (row.source_id, row.locator)
    copies = tuple(matches.places_of(reading, [row.content_id])[row.content_id])
    own = next(copy for copy in copies if copy.document == row.id)
    alone = _alone(reading, row)
    warnings = (*alone.content.warnings, *filter(None, [from_json(row.attributes).get(WARNING)]))
    if alone.content.media_type.startswith("image/") and page_texts.is_awaited(reading, alone.content_hash):
        warnings = (*warnings, "the text on the picture is not recognized yet")
    return replace(
        alone,
        content=replace(alone.content, warnings=warnings),
        places=tuple((copy.source, copy.item) for copy in copies),
        copies=copies,
        carrier=own.carrier,
        file=own.file,
        mentions=tuple((r.locator, _link(r)) for r in reading.execute(mentions)),
        conversation=mail_relations.conversation(reading, row.content_id, row.id),
        attached=mail_relations.attached(reading, {place: content_of(row)}).get(place, ()),
    )


def present(reading: Reading, item_id: int) -> Shown:
    """Return the document of an item, without its relations to others. Raises NotFound."""
    return _one(reading, _documents().where(documents.c.item_id == item_id))


def before_image(reading: Reading, image: ColumnElement[bool], document: int, item_id: int, source: str) -> Shown:
    """Return the document that a before-image has, without its relations to others. Raises NotFound."""
    known = {"id": document, "item_id": item_id, "source": source}
    columns = [literal(value).label(name) for name, value in known.items()]
    statement = select(before_images, before_images.c.path.label("locator"), *columns, *CONTENT)
    return _one(reading, statement.join(contents, contents.c.id == before_images.c.content_id).where(image))


def _one(reading: Reading, statement: Select[Any]) -> Shown:
    row = reading.execute(statement).first()
    if row is None:
        raise NotFound("version: no longer kept; see `catchment history DOCUMENT`")
    return _alone(reading, row)


def _alone(reading: Reading, row: AnyRow) -> Shown:
    """Return a document without its relations to other documents."""
    query = select(links).where(links.c.content_id == row.content_id).order_by(links.c.position)
    named = select(entities).where(entities.c.content_id == row.content_id).order_by(entities.c.position)
    content, metadata = content_of(row), from_json(row.metadata)
    return record(
        Shown,
        row,
        document=row.id,
        title=shown_title(row.title, row.locator),
        item=row.locator,
        content_hash=row.hash,
        content=replace(content, author=matches.author_of(content.author, metadata)),
        aliases=tuple(row.aliases.split("\n")) if row.aliases else (),
        links=tuple(map(_link, reading.execute(query))),
        entities=tuple(
            Entity(EntityKind(r.kind), r.value, r.detail, r.start, r.stop, r.confidence) for r in reading.execute(named)
        ),
        places=((row.source, row.locator),),
        mentions=(),
        conversation=(),
        attached=(),
        carrier=None,
        copies=(),
        file=None,
    )


def _links() -> Select[Any]:
    return (
        select(documents.c.item_id, items.c.locator, links)
        .join_from(links, documents, documents.c.content_id == links.c.content_id)
        .join(items, items.c.id == documents.c.item_id)
        .where(_LIVE)
        .order_by(items.c.locator, links.c.position)
    )


def _links_called(name: str, source_id: int) -> Select[Any]:
    # In a repository, a colon precedes the names of the files in its root.
    names = {name, name.rpartition(":")[2]}
    # The addition keeps SQLite from querying the links of each document of the source separately.
    return _links().where(links.c.name.in_(names), documents.c.source_id + 0 == source_id)


def _link(row: AnyRow) -> Link:
    return Link(LinkKind(row.kind), row.target, row.anchor, row.label, row.start, row.stop)
