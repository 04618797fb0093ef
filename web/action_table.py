"""The actions of the page and of `/api/v1`: the fields and the function of each, and the page that follows.

A form of the page posts to `/actions/NAME`; the answer is a redirect, and the next page shows the result or the refusal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from anyio import to_thread
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from catchment.content import copies_in_memory
from catchment.errors import BadInput, CatchmentError, NotFound, Reason, Refused, TryAgain
from catchment.runtime.membership import ANY, Membership
from catchment.runtime.process import operator
from deployments.actions import (
    backfills,
    backups,
    consents,
    inbox,
    incidents,
    jobs,
    library,
    limits,
    quarantine,
    sinks,
    sources,
    syncs,
)
from deployments.actions.desk import Desk
from deployments.actions.quarantine import Selection
from web.action_fields import (
    NO_FLAG,
    AgeFields,
    ChangeFields,
    ConsentFields,
    HostsFields,
    InboxFields,
    LimitFields,
    ModelFields,
    MoveFields,
    PlanFields,
    RemoveFields,
    SinkFields,
    SourceFields,
)
from web.guard import error
from web.json_interface import explained
from web.sessions import form_fields
from web.site import Site, Told
from web.template_filters import count

_Name = Annotated[str, Field(max_length=500)]
_Text = Annotated[str, Field(max_length=2_000)]
_Number = Annotated[int, Field(ge=0, le=2**62), NO_FLAG]
_Numbers = Annotated[
    tuple[_Number, ...], BeforeValidator(lambda given: given.split(",") if isinstance(given, str) else given)
]
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class NamedFields:
    """A source, a sink, or a host for its circuit breaker. `expected`: of held deletions, the number that the person saw."""

    name: _Name
    expected: _Number | None = None
    deep: bool = False
    reason: _Text = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class NumberFields:
    """A job, a sync or an incident."""

    number: _Number
    reason: _Text = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ItemsFields:
    """Quarantined items, as `Selection`; `jobs` of a form are separated by commas. `text`: of a note."""

    jobs: _Numbers = ()
    source: _Name | None = None
    cause: Reason | None = None
    cluster: _Name | None = None
    expected: _Number | None = None
    text: _Text = ""
    reason: _Text = ""

    @property
    def selection(self) -> Selection:
        """The items. Raises BadInput without the number that the person saw: all that match could be more."""
        if not self.jobs and self.expected is None:
            raise BadInput("expected: missing; give the number of items that match")
        return Selection(self.jobs, self.source, self.cause, self.cluster, self.expected)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ReasonFields:
    """A reason, and no other field."""

    reason: _Text = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class EverySourceFields:
    """All sources."""

    deep: bool = False
    reason: _Text = ""


class Done(NamedTuple):
    """The result of an action: a sentence, and a value for a program."""

    said: str
    result: int | str | None = None


F = TypeVar("F")
Act = Callable[[Desk, F, str], Done]


@dataclass(frozen=True, slots=True)
class WebAction(Generic[F]):
    """An action.

    Attributes:
        fields: The class of its fields.
        act: Does it, for an actor.
        after: Returns the page to show then.
    """

    fields: type[F]
    act: Act[F]
    after: Callable[[F], str]


def _simply(act: Callable[[Desk, Any, str, str], str | int | None], said: str) -> Act[Any]:
    """Return what does something to a name or a number, which the sentence has in place of {}."""

    def done(desk: Desk, given: NamedFields | NumberFields, actor: str) -> Done:
        subject = given.number if isinstance(given, NumberFields) else given.name
        result = act(desk, subject, actor, given.reason)
        return Done(said.format(subject), result)

    return done


def _add(desk: Desk, given: SourceFields, actor: str) -> Done:
    found = sources.add(desk, given.new, actor, given.reason, consented=given.consent, until=given.end)
    begins = "it is read as soon as Catchment runs"
    with suppress(NotFound, Refused, TryAgain):
        syncs.start(desk, given.name, actor)
        begins = "its first sync starts"
    return Done(f"{given.name} is added ({found}); {begins}", found)


def _change(desk: Desk, given: ChangeFields, actor: str) -> Done:
    entry = desk.revised(desk.entry(given.name), given.settings, given.timing)
    changed = sources.change(desk, entry, actor, given.reason, secret=given.secret)
    keys = ", ".join(one.key for one in changed)
    return Done(f"{given.name}: {keys} changed" if changed else f"{given.name}: nothing to change", len(changed))


def _move(desk: Desk, given: MoveFields, actor: str) -> Done:
    host = Membership.of(desk.home)
    to = ANY if given.anywhere else host.name if host else ""
    found = sources.move(desk, given.name, to, actor, given.reason)
    return Done(f"{given.name} runs on {'any host' if given.anywhere else to} now ({found})", found)


def _remove(desk: Desk, given: RemoveFields, actor: str) -> Done:
    sources.remove(desk, given.confirmed, actor, given.reason)
    return Done(f"{given.name} and its documents are removed from the library; nothing changed at the source")


def _give(desk: Desk, given: ConsentFields, actor: str) -> Done:
    scopes = consents.give(desk, given.name, actor, given.reason, until=given.end)
    return Done(f"{given.name} may be read: {consents.named(sorted(scopes))}", len(scopes))


def _allow_hosts(desk: Desk, given: HostsFields, actor: str) -> Done:
    scopes = sources.allow_hosts(desk, given.name, given.hosts, actor, given.reason, until=given.end)
    return Done(f"{given.name} may contact: {consents.named(sorted(scopes)) or 'no further host'}", len(scopes))


def _enqueue(desk: Desk, given: InboxFields, actor: str) -> Done:
    done = inbox.enqueue(desk, given.addresses, actor, given.reason, hosts=given.hosts, consented=given.consent)
    refused = f", {count(done.refused, 'line')} without an address" if done.refused else ""
    begins = "a sync starts" if done.run else "they are read as soon as Catchment runs"
    return Done(
        f"{count(done.added, 'address', 'addresses')} added, {done.known:,} known{refused}; {begins}", done.added
    )


def _revoke(desk: Desk, given: RemoveFields, actor: str) -> Done:
    proof = consents.revoke(desk, given.confirmed, actor, given.reason, scope=given.scope)
    items = count(proof.items, "item")
    if not proof.holds:
        raise TryAgain(f"{given.name}: consent withdrawn and {items} deleted, but some data is left; repeat it")
    copies = f"; older copies still have data: {', '.join(proof.copies)}" if proof.copies else ""
    left = f"{', '.join(proof.hosts)} will delete what is there" if proof.hosts else "nothing of them is left"
    held = f"; {copies_in_memory.HELD}, until its program is restarted" if copies_in_memory.is_held(desk.home) else ""
    return Done(f"{given.name}: consent withdrawn, {items} deleted, and {left}{copies}{held}", proof.items)


def _limit(desk: Desk, given: LimitFields, actor: str) -> Done:
    scope, rule = limits.change(desk, given.name, actor, given.reason, **given.limits)
    return Done(f"Limits of {scope}: {rule}", str(rule))


def _clear(desk: Desk, given: NamedFields, actor: str) -> Done:
    return Done(f"{limits.clear(desk, given.name, actor, given.reason)} has no limits")


def _resume(desk: Desk, given: NamedFields, actor: str) -> Done:
    run = sources.resume(desk, given.name, actor, given.reason)
    return Done(f"{given.name} is resumed; {'a sync starts' if run else 'no sync could be started'}", run)


def _start(desk: Desk, given: NamedFields, actor: str) -> Done:
    run = syncs.start(desk, given.name, actor, given.reason, deep=given.deep)
    return Done(f"A sync of {given.name} starts", run)


def _start_all(desk: Desk, given: EverySourceFields, actor: str) -> Done:
    started = syncs.start_all(desk, actor, given.reason, deep=given.deep)
    problems = [run for run in started.values() if not isinstance(run, str)]
    if len(problems) == len(started):
        raise problems[0]
    number = len(started) - len(problems)
    return Done("; ".join([f"{count(number, 'sync')} started", *(f"not {problem}" for problem in problems)]), number)


def _undo(desk: Desk, given: NumberFields, actor: str) -> Done:
    undone = syncs.undo(desk, given.number, actor, given.reason)
    return Done(f"Sync {given.number} is undone at {count(len(undone.actions), 'path')}", undone.number)


def _plan_backfill(desk: Desk, given: PlanFields, actor: str) -> Done:
    what = backfills.window(desk, given.name, *given.window, given.stage)
    planned = backfills.plan(desk, given.name, what, actor, given.reason)
    if planned is None:
        return Done(f"{given.name}: nothing to do; no item is new, and none was read by an earlier version", 0)
    return Done(f"{count(planned.survey.total, 'item')} of {given.name}; start it", planned.id)


def _cancel_backfill(desk: Desk, given: NumberFields, actor: str) -> Done:
    number = backfills.cancel(desk, given.number, actor, given.reason)
    return Done(f"Backfill {given.number} is cancelled, with {count(number, 'job')}", number)


def _retry_backfill(desk: Desk, given: NumberFields, actor: str) -> Done:
    number = backfills.retry(desk, given.number, actor, given.reason)
    return Done(f"{count(number, 'item')} of backfill {given.number} queued again", number)


def _undo_backfill(desk: Desk, given: NumberFields, actor: str) -> Done:
    cancelled, undone = backfills.undo(desk, given.number, actor, given.reason)
    number = 0 if undone is None else len(undone.actions)
    ended = f" and cancelled, with {count(cancelled, 'job')}" if cancelled else ""
    return Done(f"Backfill {given.number} is undone at {count(number, 'path')}{ended}", number)


def _apply(desk: Desk, given: NamedFields, actor: str) -> Done:
    if given.expected is None:
        raise BadInput("expected: missing; give the number of deletions that are held")
    number = sources.apply_deletions(desk, given.name, actor, given.reason, expected=given.expected)
    return Done(f"{count(number, 'item')} of {given.name} deleted from the library", number)


def _drop(desk: Desk, given: NamedFields, actor: str) -> Done:
    number = sources.drop_deletions(desk, given.name, actor, given.reason)
    return Done(f"{count(number, 'document')} of {given.name} kept; the next sync compares again", number)


def _retry(desk: Desk, given: ItemsFields, actor: str) -> Done:
    number, rest = quarantine.retry(desk, given.selection, actor, given.reason)
    left = f"; {rest:,} cannot be retried" if rest else ""
    return Done(f"{count(number, 'item')} queued again, for the next sync of the source{left}", number)


def _discard(desk: Desk, given: ItemsFields, actor: str) -> Done:
    number = quarantine.discard(desk, given.selection, actor, given.reason)
    return Done(f"{count(number, 'entry', 'entries')} discarded", number)


def _note(desk: Desk, given: ItemsFields, actor: str) -> Done:
    number = quarantine.note(desk, given.selection, given.text, actor)
    return Done(f"Note added to {count(number, 'entry', 'entries')}", number)


def _purge(desk: Desk, given: AgeFields, actor: str) -> Done:
    number = quarantine.purge(desk, timedelta(days=given.days), actor, given.reason or "purged")
    return Done(f"{count(number, 'old entry', 'old entries')} removed from quarantine", number)


def _acknowledge(desk: Desk, given: NumberFields, actor: str) -> Done:
    incidents.acknowledge(desk, given.number, actor, given.reason)
    return Done(f"Incident {given.number} is acknowledged")


def _reset_breaker(desk: Desk, given: NamedFields, actor: str) -> Done:
    keys = limits.reset_breaker(desk, given.name, actor, given.reason)
    return Done(f"{given.name} is asked again", len(keys))


def _back_up(desk: Desk, given: ReasonFields, actor: str) -> Done:
    """Start a backup. It takes minutes, so it works in a thread; it needs only this process and the ledger's file."""
    backups.require_none_running(desk.home)

    def make() -> None:
        # `BackupStatus` has the reason.
        with suppress(CatchmentError):
            backups.make(desk, actor, given.reason)

    threading.Thread(target=make, daemon=True).start()
    return Done("A backup is being made; Health shows when it is complete")


def _choose_model(desk: Desk, given: ModelFields, actor: str) -> Done:
    is_requested = library.choose_model(desk, given.setting, actor, given.reason)
    paused = "" if is_requested else "; the deployment embed is paused, resume it in the Prefect UI"
    return Done(f"The model of search by meaning is {given.setting}{paused}")


def _add_sink(desk: Desk, given: SinkFields, actor: str) -> Done:
    sinks.add(
        desk, given.kind, given.place, given.name, actor, given.reason, secret=given.password, consented=given.consent
    )
    return Done(f"{given.name} is added; it receives all documents, and every change")


def _adopt_sink(desk: Desk, given: NamedFields, actor: str) -> Done:
    sinks.adopt(desk, given.name, actor, given.reason)
    return Done(f"{given.name} is adopted; another home or sink that wrote there is refused from now on")


def _remove_sink(desk: Desk, given: NamedFields, actor: str) -> Done:
    sink = sinks.remove(desk, given.name, actor, given.reason)
    return Done(f"{given.name} is removed; the copies in {sink.place} stay, delete them there")


def _of_source(given: NamedFields | SourceFields) -> str:
    return f"/sources/{quote(given.name, safe='')}"


def _part_of_source(part: str) -> Callable[[Any], str]:
    return lambda given: f"/sources/{quote(given.name, safe='')}/{part}"


def _limits(given: NamedFields | LimitFields) -> str:
    kind, _, name = given.name.partition(":")
    if kind == "source":
        return f"/sources/{quote(name, safe='')}/limits"
    return f"/sources/limits?{urlencode({'scope': given.name})}"


def _of_job(given: NumberFields) -> str:
    return f"/jobs/{given.number}"


def _health(_given: object) -> str:
    return "/health"


def _trouble(_given: object) -> str:
    return "/trouble"


def _of_cluster(given: ItemsFields) -> str:
    return f"/trouble/clusters/{quote(given.cluster, safe='')}" if given.cluster else "/trouble"


ACTIONS: Mapping[str, WebAction[Any]] = {
    "sources.add": WebAction(SourceFields, _add, _of_source),
    "sources.change": WebAction(ChangeFields, _change, _part_of_source("settings")),
    "sources.move": WebAction(MoveFields, _move, _of_source),
    "sources.remove": WebAction(RemoveFields, _remove, lambda _given: "/sources"),
    "sources.pause": WebAction(NamedFields, _simply(sources.pause, "{} is paused until you resume it"), _of_source),
    "sources.resume": WebAction(NamedFields, _resume, _of_source),
    "sources.apply_deletions": WebAction(NamedFields, _apply, _trouble),
    "sources.drop_deletions": WebAction(NamedFields, _drop, _trouble),
    "syncs.start": WebAction(NamedFields, _start, _of_source),
    "syncs.start_all": WebAction(EverySourceFields, _start_all, lambda _given: "/syncs"),
    "syncs.cancel": WebAction(
        NamedFields, _simply(syncs.cancel, "The sync of {} stops after its present step"), _of_source
    ),
    "syncs.undo": WebAction(NumberFields, _undo, lambda given: f"/syncs/{given.number}"),
    "backfills.plan": WebAction(
        PlanFields, _plan_backfill, lambda given: f"/backfills?{urlencode({'source': given.name})}"
    ),
    **{
        f"backfills.{name}": WebAction(NumberFields, act, lambda given: f"/backfills/{given.number}")
        for name, act in (
            ("start", _simply(backfills.start, "Backfill {} starts")),
            ("pause", _simply(backfills.pause, "Backfill {} stops after its present batch")),
            ("resume", _simply(backfills.resume, "Backfill {} continues")),
            ("cancel", _cancel_backfill),
            ("retry", _retry_backfill),
            ("undo", _undo_backfill),
        )
    },
    "consents.give": WebAction(ConsentFields, _give, _part_of_source("consent")),
    "sources.allow_hosts": WebAction(HostsFields, _allow_hosts, _part_of_source("consent")),
    "inbox.enqueue": WebAction(InboxFields, _enqueue, lambda _given: f"/sources/{inbox.INBOX}"),
    "consents.revoke": WebAction(RemoveFields, _revoke, _part_of_source("consent")),
    "quarantine.retry": WebAction(ItemsFields, _retry, _trouble),
    "quarantine.discard": WebAction(ItemsFields, _discard, _trouble),
    "quarantine.note": WebAction(ItemsFields, _note, _of_cluster),
    "quarantine.purge": WebAction(AgeFields, _purge, lambda _given: "/jobs?state=quarantined"),
    "jobs.cancel": WebAction(NumberFields, _simply(jobs.cancel, "Job {} is cancelled"), _of_job),
    "jobs.prioritize": WebAction(NumberFields, _simply(jobs.prioritize, "Job {} is the next of its source"), _of_job),
    "limits.change": WebAction(LimitFields, _limit, _limits),
    "limits.clear": WebAction(NamedFields, _clear, _limits),
    "incidents.acknowledge": WebAction(NumberFields, _acknowledge, lambda given: f"/incidents/{given.number}"),
    "limits.reset_breaker": WebAction(NamedFields, _reset_breaker, _trouble),
    "backups.make": WebAction(ReasonFields, _back_up, _health),
    "sinks.add": WebAction(SinkFields, _add_sink, _health),
    "sinks.pause": WebAction(NamedFields, _simply(sinks.pause, "{} is paused until you resume it"), _health),
    "sinks.resume": WebAction(
        NamedFields, _simply(sinks.resume, "{} is compared with the library, and the differences are sent"), _health
    ),
    "sinks.rebuild": WebAction(
        NamedFields, _simply(sinks.rebuild, "The next delivery to {} empties and fills it again"), _health
    ),
    "sinks.adopt": WebAction(NamedFields, _adopt_sink, _health),
    "sinks.remove": WebAction(NamedFields, _remove_sink, _health),
    "library.choose_model": WebAction(ModelFields, _choose_model, _health),
}
"""The actions, by the module and the name of their function in `deployments.actions`."""


def forms(desk: Desk, site: Site) -> list[Route]:
    """Return the route of the page's forms."""

    async def post(request: Request) -> Response:
        fields = await form_fields(request)
        action = _action(request)
        try:
            given = TypeAdapter(action.fields).validate_python(fields)
            done = await _perform(action, desk, given)
        except (ValidationError, CatchmentError) as refusal:
            told, address = Told(_problem(refusal), fields.get("reason", ""), is_refusal=True), _sent_from(request)
        else:
            told, address = Told(done.said), action.after(given)
        site.tell(request.scope["session"], told)
        return RedirectResponse(address, 303)

    return [Route("/actions/{name}", post, methods=["POST"])]


def interface(desk: Desk) -> list[Route]:
    """Return the route of `/api/v1`, which answers `{"said": "…", "result": …}`."""

    async def post(request: Request) -> Response:
        action = _action(request)
        try:
            given = TypeAdapter(action.fields).validate_json(await request.body() or b"{}")
            done = await _perform(action, desk, given)
        except ValidationError as invalid:
            return error(400, explained(invalid))
        return JSONResponse(done._asdict())

    return [Route("/actions/{name}", post, methods=["POST"])]


async def _perform(action: WebAction[F], desk: Desk, given: F) -> Done:
    return await to_thread.run_sync(action.act, desk, given, operator())


def _action(request: Request) -> WebAction[Any]:
    action = ACTIONS.get(request.path_params["name"])
    if action is None:
        raise HTTPException(404, "no such action")
    return action


def _problem(refusal: Exception) -> str:
    return explained(refusal) if isinstance(refusal, ValidationError) else str(refusal)


def _sent_from(request: Request) -> str:
    """Return the address of the page with the form. `Guard` has checked that it is one of ours."""
    page = urlsplit(request.headers.get("referer", "/trouble"))
    return f"/{page.path.lstrip('/')}{'?' if page.query else ''}{page.query}"
