"""The pages that wait for text recognition, and the jobs that bring the recognized text into their documents."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import func, select, tuple_, update

from catchment.ledger.db.database import Store, Writing, among
from catchment.ledger.db.job_states import PENDING, states
from catchment.ledger.db.schema import consents, contents, documents, items, jobs, search_model, sources
from catchment.ledger.db.schema import page_texts as table
from catchment.ledger.jobs.repeats import can_be_repeated, repeat
from catchment.ledger.library import page_texts
from catchment.model import PageText
from catchment.records.standing import OFF

_REASON = "text recognized"
_RARE = 50
_WITHDRAWN = select(consents.c.source_id).where(consents.c.withdrawn_at.is_not(None))
_PLACE = table.c.page, table.c.content_hash
_WAITING = (
    select(*_PLACE, func.min(documents.c.id), contents.c.media_type)
    .join_from(table, contents, contents.c.hash == table.c.content_hash)
    .join(documents, (documents.c.content_id == contents.c.id) & documents.c.removed_at.is_(None))
    .where(table.c.waits, documents.c.source_id.not_in(_WITHDRAWN))
    .group_by(*_PLACE, contents.c.media_type)
)
"""Pages of documents that left the library do not wait, though they are kept as undo data."""


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """A page that waits for recognition. `document`: a live document with this content, of a source with consent."""

    page: int
    content_hash: str
    document: int
    media_type: str


class Recognition:
    """The text recognition of one library."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def setting(self) -> str:
        """Whether and how text is recognized: `auto`, `off`, or Tesseract's names of languages with plus signs between."""
        with self._store.read() as reading:
            return str(reading.execute(select(search_model.c.recognition)).scalar_one())

    @setting.setter
    def setting(self, value: str) -> None:
        with self._store.write() as writing:
            writing.execute(update(search_model).values(recognition=value))

    def needs_run(self) -> bool:
        """Return whether the flow `recognize` has work: pages wait that can be read, and it is not off."""
        readable = _WAITING.where(func.coalesce(table.c.problem, "") == "").limit(1)
        with self._store.read() as reading:
            return reading.execute(readable).first() is not None and self.setting != OFF

    def languages(self) -> list[str]:
        """Return the codes of the languages of at least one in fifty documents, the most frequent first."""
        query = select(contents.c.language, func.count()).group_by(contents.c.language).order_by(func.count().desc())
        with self._store.read() as reading:
            rows = [(language, number) for language, number in reading.execute(query).tuples() if language]
        least = sum(number for _, number in rows) / _RARE
        return [language for language, number in rows if number >= least]

    def waiting(self, after: WaitingPage | None, limit: int) -> list[WaitingPage]:
        """Return the next pages, the first pages of all contents before the second ones, so that no long file delays others."""
        query = _WAITING.order_by(*_PLACE).limit(limit)
        if after is not None:
            query = query.where(tuple_(*_PLACE) > (after.page, after.content_hash))
        with self._store.read() as reading:
            return [WaitingPage(*row) for row in reading.execute(query)]

    def known(self, picture: str, recognizer: str) -> PageText | None:
        """Return what this recognizer read on an equal picture; None if it has not seen any."""
        same = (table.c.picture == picture) & (table.c.recognizer == recognizer) & table.c.text.is_not(None)
        with self._store.read() as reading:
            row = reading.execute(select(table).where(same).limit(1)).first()
            return None if row is None else page_texts.page_text(row)

    def put(self, page: WaitingPage, picture: str | None, recognizer: str, read: PageText) -> None:
        """Store the text of a page. After the last page of a content, add a job for each item that has it.

        `picture`: the hash of the page's picture; None if it cannot be drawn.
        """
        with self._store.write() as writing:
            of_content = table.c.content_hash == page.content_hash
            writing.execute(
                update(table)
                .where(of_content, table.c.page == page.page)
                .values(waits=False, picture=picture, recognizer=recognizer, **page_texts.values(read))
            )
            others = writing.execute(select(table.c.page).where(of_content, table.c.waits).limit(1)).first()
            if others is None:
                _read_again(writing, page.content_hash)

    def hold(self, page: WaitingPage, problem: str) -> None:
        """Keep why a page cannot be read now. It goes on waiting."""
        it = (table.c.content_hash == page.content_hash) & (table.c.page == page.page)
        with self._store.write() as writing:
            writing.execute(update(table).where(it, table.c.waits).values(problem=problem))

    def sources(self) -> list[str]:
        """Return the deployments of the sources that have to read items again, as `sync-KIND/NAME`."""
        waiting = states({PENDING}) & jobs.c.current & (jobs.c.reason == _REASON)
        query = select(sources.c.kind, sources.c.name).join(jobs, jobs.c.source_id == sources.c.id).where(waiting)
        with self._store.read() as reading:
            return [f"sync-{kind}/{name}" for kind, name in reading.execute(query.distinct())]

    def texts(self, hashes: Collection[str]) -> dict[str, dict[int, PageText]]:
        """Return what was recognized, by hash of the content and number of the page."""
        read: dict[str, dict[int, PageText]] = {}
        if hashes:
            with self._store.read() as reading:
                recognized = among(reading, table.c.content_hash, hashes) & table.c.text.is_not(None)
                for row in reading.execute(select(table).where(recognized)):
                    read.setdefault(row.content_hash, {})[row.page] = page_texts.page_text(row)
        return read

    def waits_for(self, **owner: int | None) -> tuple[int, str]:
        """Count the waiting pages of live documents, and return a problem of one of them, or "".

        `owner`: the `source_id` of the documents, or the `id` of one; all without it.
        """
        owned = select(contents.c.hash).join(documents, documents.c.content_id == contents.c.id)
        of_owner = table.c.content_hash.in_(owned.filter_by(removed_at=None, **owner))
        numbers = select(func.count(), func.max(table.c.problem)).where(table.c.waits, of_owner)
        with self._store.read() as reading:
            pages, problem = reading.execute(numbers).one()
        return int(pages), problem or ""

    def counts(self) -> tuple[int, int]:
        """Return the numbers of pages: recognized, and in all."""
        recognized = select(func.count()).select_from(table).where(~table.c.waits)
        waiting = select(func.count()).select_from(_WAITING.subquery())
        with self._store.read() as reading:
            made, missing = (int(reading.execute(number).scalar_one()) for number in (recognized, waiting))
        return made, made + missing


def _read_again(writing: Writing, content_hash: str) -> None:
    """Add a job for each present item with this content, unless one is waiting, which will use the text as well."""
    rows = writing.execute(
        select(items.c.id, items.c.source_id, items.c.version, jobs.c.id.label("job"))
        .join_from(items, jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        .join(documents, documents.c.item_id == items.c.id)
        .join(contents, contents.c.id == documents.c.content_id)
        .where(contents.c.hash == content_hash, items.c.state == "present", can_be_repeated())
    ).all()
    for row in rows:
        repeat(writing, row.source_id, [row], _REASON, "recognize", None, None)
