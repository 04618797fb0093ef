"""The responses of the tools, from the ledger and the shared sources alone."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from assistant import answers
from assistant.sharing import Sharing
from assistant.untrusted import short
from catchment.content import copies_in_memory
from catchment.errors import NoConsent, NotFound, PageSilent, ReadOnly, Refused
from catchment.model import PART, JobState, outer_files
from catchment.runtime.home import Home
from catchment.views import resolver

if TYPE_CHECKING:
    from catchment.ledger import ItemRow, Ledger, Shown, Source
    from catchment.search.meaning.index import MeaningIndex
    from catchment.search.related import RelatedDocument
    from catchment.search.results import Hit, Results
    from catchment.sync.plan import Plan
    from catchment.views.documents import DocumentView
    from deployments.sources.sources_file import SourceEntry

T = TypeVar("T")

_SECONDS = 10.0
"""Time limit of a search, and of a transaction. Assistants wait longer than people."""
_SIMILAR = 20
_REPLIES = 50
"""Later messages of a conversation that are read with a message."""
_LONGEST_ADDRESS = 2_000
_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,4}){0,2}")
_NAMES, _NAME = 20, 60
"""Number and characters of the people of a document, and of its tags."""


class AssistantLibrary:
    """The library as assistants see it, for all threads. Its methods block, and raise CatchmentError."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._sharing = Sharing(home)
        self._lock = threading.Lock()
        self._opened: tuple[object, Ledger, MeaningIndex] | None = None
        """The library of the shared sources: no query of it sees the others."""

    def search(self, arguments: answers.SearchArguments) -> answers.SearchAnswer:
        """Search the shared sources, by the running system if it runs, otherwise by words."""
        ledger, _ = self._open()
        shared = self._sources(ledger)
        results = self._results(ledger, shared, arguments)
        note = "; ".join(filter(None, (results.notice, *results.missing))) or None
        end = arguments.offset + len(results.hits) if results.hits else results.total
        entries = self._sharing.shared()
        hits = [self._hit(hit, entries[hit.source]) for hit in results.hits if hit.source in entries]
        position = _position(results.total, end)
        return answers.SearchAnswer(**position, withheld=self._withheld(), note=note, hits=hits)

    def read(self, arguments: answers.ReadArguments) -> answers.ReadAnswer:
        """Return a part of the text of a document; after that of a message, the later messages of its conversation."""
        from catchment.views.documents import document

        ledger, _ = self._open()
        shown = self._document(ledger, arguments.document, arguments.as_of)
        view = document(shown)
        text = f"{shown.content.text}{_later_messages(ledger, view)}"
        part = _until_end_of_word(text[arguments.offset :], arguments.limit)
        people = (*view.senders, *view.recipients, *view.copied)
        entry = self._sharing.shared()[shown.source]
        return answers.ReadAnswer(
            document=shown.document,
            source=shown.source,
            kind=entry.kind,
            media_type=shown.content.media_type,
            language=_language(shown.content.language),
            date=_moment(view.moment),
            recognized=shown.content.recognized.get("confidence"),
            offset=arguments.offset,
            **_position(len(text), arguments.offset + len(part)),
            untrusted=answers.DocumentText(
                title=short(shown.title),
                place=short(shown.item),
                author=shown.content.author and short(shown.content.author),
                address=self._address(entry, shown.document, shown.item, shown.metadata.get("url")),
                people=[short(each, _NAME) for each in people[:_NAMES]],
                tags=[short(each, _NAME) for each in view.tags[:_NAMES]],
                text=part,
            ),
        )

    def related(self, arguments: answers.RelatedArguments) -> answers.RelatedAnswer:
        """Return the documents related to a document, of shared sources only."""
        from catchment.ledger import time_limit
        from catchment.views.documents import related

        ledger, meaning = self._open()
        shown = self._document(ledger, arguments.document)
        with time_limit(_SECONDS):
            neighbours = related(ledger, shown, meaning, _SIMILAR)
        part, position = _page(neighbours.documents, arguments)
        return answers.RelatedAnswer(
            document=shown.document,
            **position,
            withheld=self._withheld(),
            note=neighbours.meaning_off,
            related=[_nearby(neighbour) for neighbour in part],
        )

    def status(self, arguments: answers.StatusArguments) -> answers.StatusAnswer:
        """Return the state of the shared sources, and whether Catchment runs."""
        from catchment.search.meaning.meaning_status import MeaningStatus
        from catchment.views.sources import standings
        from catchment.views.work.recognition import RecognitionStatus
        from deployments.server.running import running

        ledger, _ = self._open()
        # The reason of a failed run counts passages of all sources.
        meaning = replace(MeaningStatus.read(self._home, ledger), reason="")
        part, position = _page(standings(ledger, self._home), arguments)
        rows = [
            answers.SourceStatus(
                source=standing.name,
                kind=standing.kind,
                state=standing.wait.kind.label if standing.wait else standing.state,
                documents=standing.documents,
                waiting=standing.waiting,
                quarantined=standing.quarantined,
                held_deletions=standing.held_deletions,
                last_sync=standing.last_sync and (standing.last_sync.outcome or "running"),
                last_sync_ended=standing.last_sync and _moment(standing.last_sync.ended),
            )
            for standing in part
        ]
        return answers.StatusAnswer(
            running=running(self._home) is not None,
            meaning=str(meaning),
            pictures=str(RecognitionStatus.read(ledger)),
            withheld=self._withheld(),
            **position,
            sources=rows,
        )

    def why(self, arguments: answers.WhyArguments) -> answers.WhyAnswer:
        """Return the state of the items with this name, or of all that are held back. Looks at the ledger, never at files."""
        ledger, _ = self._open()
        if arguments.item is None:
            held_back, total = ledger.intake.held_back(limit=arguments.limit, offset=arguments.offset)
            position = _position(total, arguments.offset + len(held_back))
            explained = [_explained(ledger, self._home, item) for item in held_back]
            return answers.WhyAnswer(**position, withheld=self._withheld(), note=None, items=explained)
        shared = {name: entry.settings for name, entry in self._sharing.shared().items()}
        items = resolver.find(ledger, arguments.item, lambda: shared, looks_at_disk=False).listed
        note = None
        if not items:
            note = "no shared source has listed such an item; for a file on this machine run: catchment why PATH"
        part, position = _page(items, arguments)
        explained = [_explained(ledger, self._home, item) for item in part]
        return answers.WhyAnswer(**position, withheld=self._withheld(), note=note, items=explained)

    def plan(self, arguments: answers.PlanArguments) -> answers.PlanAnswer:
        """Return the plan of a sync of a folder. Lists the folder; reads and changes no file.

        Raises Refused for a source whose listing sends requests to a host.
        """
        ledger, _ = self._open()
        shared = self._sources(ledger)
        if arguments.source not in shared:
            names = ", ".join(shared) or "none"
            raise NotFound(f"{short(arguments.source)!r}: no such source; sources for assistants: {names}")
        preview = self._preview(ledger, shared[arguments.source], self._sharing.shared()[arguments.source])
        part, position = _page(preview.steps, arguments)
        return answers.PlanAnswer(
            source=arguments.source,
            totals={str(action): number for action, (number, _) in preview.totals.items()},
            waiting=preview.waiting,
            **position,
            note=f"nothing was synced; a person syncs with: catchment sync {arguments.source}",
            steps=[
                answers.PlannedStep(
                    action=str(step.action),
                    reason=step.why,
                    bytes=step.size if step.reads else None,
                    untrusted=answers.ItemPlace(place=short(step.item), moved_from=step.was and short(step.was)),
                )
                for step in part
            ],
        )

    def _open(self) -> tuple[Ledger, MeaningIndex]:
        """Return the ledger of the shared sources, and its vectors.

        Opened again if other sources are shared, or if `catchment restore` replaced the file.
        """
        from catchment.ledger import Ledger, sqlite_file
        from catchment.search.meaning.index import MeaningIndex

        shared = frozenset(self._sharing.shared())
        file = sqlite_file(self._home.database_url)
        with self._lock:
            version = shared, file.stat().st_ino if file is not None and file.exists() else None
            if self._opened is None:
                copies_in_memory.hold(self._home)
            if self._opened is None or self._opened[0] != version:
                ledger = Ledger.inspect(self._home, seconds=_SECONDS, only=shared)
                self._opened = version, ledger, MeaningIndex(ledger)
            return self._opened[1:]

    def _sources(self, ledger: Ledger) -> dict[str, Source]:
        """Return the shared sources of the ledger."""
        return {source.name: source for source in ledger.sources.all()}

    def _document(self, ledger: Ledger, number: int, as_of: datetime | None = None) -> Shown:
        """Return a document, as it is or as it was at a time. Raises NotFound."""
        from catchment.views.versions import versions

        if as_of is not None:
            return versions.as_of(ledger, versions.item_of(ledger, number).id, as_of)[1]
        try:
            return ledger.library.document(number)
        except NotFound:
            problem = f"document {number}: not found, or kept from assistants; search returns the numbers"
            raise NotFound(problem) from None

    def _results(self, ledger: Ledger, only: Collection[str], arguments: answers.SearchArguments) -> Results:
        from catchment.search import remote
        from catchment.search.search import search

        now, limit, offset = datetime.now().astimezone(), arguments.limit, arguments.offset
        try:
            return remote.search(
                self._home, arguments.query, now, limit=limit, offset=offset, only=only, seconds=_SECONDS
            )
        except PageSilent as silent:
            return search(ledger, arguments.query, now, meaning_off=str(silent), limit=limit, offset=offset)

    def _hit(self, hit: Hit, entry: SourceEntry) -> answers.FoundDocument:
        from catchment.search.language import STATES

        lanes = [
            name for name, rank in (("words", hit.lexical_rank), ("meaning", hit.semantic_rank)) if rank is not None
        ]
        return answers.FoundDocument(
            document=hit.document,
            source=hit.source,
            kind=entry.kind,
            media_type=hit.media_type,
            date=_moment(hit.moment),
            state=hit.state if hit.state in STATES else None,
            found_by=("both" if len(lanes) == 2 else (lanes or ["words"])[0]) + ", recognized" * hit.is_recognized,
            copies=len(hit.places) - 1,
            untrusted=answers.FoundPassage(
                title=short(hit.title),
                place=short(hit.item),
                author=hit.author and short(hit.author),
                address=self._address(entry, hit.document, hit.item, hit.url),
                passage=short(hit.snippet, 800),
            ),
        )

    def _address(self, entry: SourceEntry, document: int, item: str, url: object) -> str | None:
        """Return the address of a document on the web, in Obsidian, in its folder, or on the page if Catchment runs.

        In a folder, that of an attachment is its message, and that of a file inside of another the outer file.
        """
        from catchment.runtime.web_process import WebAddress
        from connectors.folders.file import to_path

        if isinstance(url, str) and urlsplit(url).scheme in ("http", "https"):
            address = url
        elif (root := getattr(entry.settings, "root", None)) is not None:
            places = [Path(root).absolute() / to_path(name) for name in (*outer_files(item), item.partition(PART)[0])]
            file = next(filter(Path.is_file, places[:-1]), places[-1])
            is_note = entry.kind == "obsidian" and file.suffix == ".md"
            address = f"obsidian://open?path={quote(os.fsencode(file), safe='')}" if is_note else file.as_uri()
        else:
            web = WebAddress.read(self._home)
            address = f"http://127.0.0.1:{web.port}/documents/{document}" if web else ""
        return address if 0 < len(address) <= _LONGEST_ADDRESS else None

    def _withheld(self) -> str | None:
        """Return that sources are kept, in a sentence; None if assistants may use all."""
        number = len(self._sharing.kept())
        if not number:
            return None
        subject = "1 source is" if number == 1 else f"{number} sources are"
        return f"{subject} kept from assistants; a person opens one with: catchment sources set NAME assistants=true"

    def _preview(self, ledger: Ledger, source: Source, entry: SourceEntry) -> Plan:
        from catchment.sync.plan import make_plan
        from catchment.sync.preflight import limits_of, scopes_of
        from connectors import connector_class

        connector = connector_class(entry.kind)(entry.settings)
        if limits_of(connector) is not None or scopes_of(connector):
            raise Refused(
                f"{entry.name}: its preview sends requests to a host; a person runs: catchment plan {entry.name}"
            )
        if not ledger.consents.agreed(entry.name):
            # A plan would record the request for consent.
            raise NoConsent(f"{entry.name}: no consent given; a person runs: catchment consent give {entry.name}")
        try:
            return make_plan(self._home, ledger, source, connector, entry.settings.policy(connector.policy))
        except ReadOnly:
            # It would test a source with failures, or record a changed setting.
            raise Refused(
                f"{entry.name}: its preview would change the library; a person runs: catchment plan {entry.name}"
            ) from None


def _later_messages(ledger: Ledger, view: DocumentView) -> str:
    """Return the messages that follow one in its conversation, without quotations and signatures; "" for other documents."""
    from catchment.content.extract.mail import stretches

    later = view.conversation[view.position + 1 :][:_REPLIES] if view.is_message else ()
    bodies = ledger.library.messages([message.document for message in later]) if later else {}
    written = []
    for message in later:
        if (body := bodies.get(message.document)) is not None:
            own = "".join(part for part, is_aside in stretches(body.content.text) if not is_aside)
            names = filter(None, (f"Document {message.document}", message.author, _moment(message.sent)))
            written.append(f"\n\n---\n{', '.join(names)}:\n\n{own.strip()}")
    return "".join(written)


def _nearby(neighbour: RelatedDocument) -> answers.NearbyDocument:
    return answers.NearbyDocument(
        document=neighbour.document,
        relation=neighbour.relation,
        source=neighbour.source,
        similarity=neighbour.cosine,
        untrusted=answers.TitleAndPlace(title=short(neighbour.title), place=short(neighbour.item)),
    )


def _explained(ledger: Ledger, home: Home, item: ItemRow) -> answers.ItemState:
    from catchment.views import waits
    from catchment.views.items import because

    state: str = item.state
    is_read = item.job_state is JobState.SUCCEEDED or (item.job_state is JobState.SKIPPED and item.document is not None)
    if state == "present" and not is_read:
        # It is present in its source, but may be missing in the library.
        state = item.job_state or "waiting"
    reason = because(ledger, item, waits.of_item(ledger, home, item), lambda moment: _moment(moment) or "unknown")
    return answers.ItemState(
        source=item.source,
        kind=item.kind,
        state=state,
        document=item.document,
        first_seen=_moment(item.first_seen) or "",
        changed=_moment(item.changed) or "",
        untrusted=answers.ExplainedItem(place=short(item.locator), reason=short(reason)),
    )


def _page(rows: Sequence[T], arguments: answers.PartWanted) -> tuple[Sequence[T], dict[str, Any]]:
    """Return the wanted part of a result, and its position for the answer."""
    part = rows[arguments.offset : arguments.offset + arguments.limit]
    return part, _position(len(rows), arguments.offset + len(part))


def _position(total: int, end: int) -> dict[str, Any]:
    is_cut = end < total
    return {"total": total, "truncated": is_cut, "next_offset": end if is_cut else None}


def _until_end_of_word(text: str, most: int) -> str:
    """Return the beginning of a text, up to the end of a paragraph, else of a line or a word, in its second half."""
    for end in ("\n\n", "\n", " ") if len(text) > most else ():
        if (place := text.rfind(end, most // 2, most)) >= 0:
            return text[: place + len(end)]
    return text[:most]


def _language(named: str | None) -> str | None:
    """Return a language code. A document can name any text as its language."""
    return named if named and _LANGUAGE_CODE.fullmatch(named) else None


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
