"""The actions of the page and of `/api/v1`: the fields and the function of each, and the page that follows.

A form of the page posts to `/actions/NAME`; the answer is a redirect, and the next page shows the result or the refusal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from anyio import to_thread
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from catchment.content import copies_in_memory
from catchment.errors import BadInput, CatchmentError, NotFound, Refused, TryAgain
from catchment.model import count
from catchment.runtime.membership import ANY, Membership
from catchment.runtime.process import operator
from deployments.actions import (
    backfills,
    backups,
    consents,
    hosts,
    inbox,
    incidents,
    jobs,
    library,
    limits,
    outcomes,
    quarantine,
    sinks,
    sources,
    syncs,
)
from deployments.actions.desk import Desk
from web.action_fields import (
    ActionFields,
    AgeFields,
    ChangeFields,
    ConfirmedFields,
    ConsentFields,
    EverySourceFields,
    HostsFields,
    InboxFields,
    ItemsFields,
    LimitFields,
    MoveFields,
    NamedFields,
    NumberFields,
    PlanFields,
    ReasonFields,
    RemoveFields,
    SettingFields,
    SinkFields,
    SourceFields,
)
from web.guard import error
from web.json_interface import problem_of
from web.sessions import form_fields
from web.site import Notice, Site


class ActionResult(NamedTuple):
    """The result of an action: a sentence, and a value for a program."""

    message: str
    result: int | str | None = None


F = TypeVar("F", bound=ActionFields)
Act = Callable[[Desk, F, str], ActionResult]


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


def _simply(
    act: Callable[[Desk, Any, str, str], Any],
    outcome: Callable[[Any, Any], str],
    value: Callable[[Any], int | str | None] = lambda result: result,
) -> Act[Any]:
    """Return an action on a named or numbered object.

    `outcome` makes its message from that name or number and the result, `value` what a program gets of the result.
    """

    def perform(desk: Desk, fields: NamedFields | NumberFields, actor: str) -> ActionResult:
        subject = fields.number if isinstance(fields, NumberFields) else fields.name
        result = act(desk, subject, actor, fields.reason)
        return ActionResult(outcome(subject, result), value(result))

    return perform


def _add(desk: Desk, fields: SourceFields, actor: str) -> ActionResult:
    sources.require_no_program(fields.kind)
    place = sources.add(desk, fields.new, actor, fields.reason, consented=fields.consent, until=fields.end)
    begins = "read as soon as Catchment runs"
    with suppress(NotFound, Refused, TryAgain):
        syncs.start(desk, fields.name, actor)
        begins = "its first sync starts"
    return ActionResult(f"{outcomes.ADDED.format(fields.name, place)}; {begins}", place)


def _change(desk: Desk, fields: ChangeFields, actor: str) -> ActionResult:
    sources.require_no_program(desk.entry(fields.name).kind, fields.settings)
    entry = desk.revised(desk.entry(fields.name), fields.settings, fields.timing)
    changed = sources.change(desk, entry, actor, fields.reason, secret=fields.secret)
    works = "; the login works" if fields.secret else ""
    return ActionResult(f"{outcomes.changed(fields.name, changed)}{works}", len(changed))


def _move(desk: Desk, fields: MoveFields, actor: str) -> ActionResult:
    host = Membership.of(desk.home)
    to = ANY if fields.anywhere else host.name if host else ""
    place = sources.move(desk, fields.name, to, actor, fields.reason)
    return ActionResult(outcomes.MOVED.format(fields.name, to, place), place)


def _remove(desk: Desk, fields: RemoveFields, actor: str) -> ActionResult:
    sources.remove(desk, fields.confirmed, actor, fields.reason)
    return ActionResult(f"{outcomes.REMOVED.format(fields.confirmed)} and its documents; nothing changed at the source")


def _give(desk: Desk, fields: ConsentFields, actor: str) -> ActionResult:
    sources.require_no_program(desk.entry(fields.name).kind)
    scopes = consents.give(desk, fields.name, actor, fields.reason, until=fields.end)
    return ActionResult(outcomes.consent_given(fields.name, scopes), len(scopes))


def _allow_hosts(desk: Desk, fields: HostsFields, actor: str) -> ActionResult:
    sources.require_no_program(desk.entry(fields.name).kind)
    scopes = sources.allow_hosts(desk, fields.name, fields.hosts, actor, fields.reason, until=fields.end)
    return ActionResult(outcomes.consent_given(fields.name, scopes), len(scopes))


def _enqueue(desk: Desk, fields: InboxFields, actor: str) -> ActionResult:
    result = inbox.enqueue(desk, fields.addresses, actor, fields.reason, hosts=fields.hosts, consented=fields.consent)
    begins = "a sync starts" if result.run else "they are read as soon as Catchment runs"
    return ActionResult(f"{outcomes.enqueued(inbox.INBOX, result)}; {begins}", result.added)


def _revoke(desk: Desk, fields: RemoveFields, actor: str) -> ActionResult:
    proof = consents.revoke(desk, fields.confirmed, actor, fields.reason, scope=fields.scope)
    outcome = outcomes.consent_withdrawn(proof)
    if not proof.holds:
        raise TryAgain(f"{outcome}, but some data is left; repeat it")
    copies = f"; older copies still have data: {', '.join(proof.copies)}" if proof.copies else ""
    left = f"{', '.join(proof.hosts)} will delete what is there" if proof.hosts else "nothing of them is left"
    held = f"; {copies_in_memory.HELD}, until its program is restarted" if copies_in_memory.is_held(desk.home) else ""
    return ActionResult(f"{outcome}, and {left}{copies}{held}", proof.items)


def _limit(desk: Desk, fields: LimitFields, actor: str) -> ActionResult:
    scope, rule = limits.change(desk, fields.name, actor, fields.reason, **fields.limits)
    return ActionResult(outcomes.LIMITED.format(scope, rule), str(rule))


def _resume(desk: Desk, fields: NamedFields, actor: str) -> ActionResult:
    run = sources.resume(desk, fields.name, actor, fields.reason)
    return ActionResult(
        f"{outcomes.RESUMED.format(fields.name)}; {'a sync starts' if run else 'no sync could be started'}", run
    )


def _start(desk: Desk, fields: NamedFields, actor: str) -> ActionResult:
    run = syncs.start(desk, fields.name, actor, fields.reason, deep=fields.deep)
    return ActionResult(outcomes.SYNC_STARTED.format(fields.name), run)


def _start_all(desk: Desk, fields: EverySourceFields, actor: str) -> ActionResult:
    runs = syncs.start_all(desk, actor, fields.reason, deep=fields.deep)
    problems = [run_or_error for run_or_error in runs.values() if not isinstance(run_or_error, str)]
    if len(problems) == len(runs):
        raise problems[0]
    number = len(runs) - len(problems)
    return ActionResult(
        "; ".join([f"{count(number, 'sync')} started", *(f"not {problem}" for problem in problems)]), number
    )


def _plan_backfill(desk: Desk, fields: PlanFields, actor: str) -> ActionResult:
    what = backfills.window(desk, fields.name, *fields.window, fields.stage)
    planned = backfills.plan(desk, fields.name, what, actor, fields.reason)
    if planned is None:
        return ActionResult(outcomes.NOTHING_TO_BACKFILL, 0)
    return ActionResult(f"{count(planned.survey.total, 'item')} of {fields.name}; start it", planned.id)


def _undo_backfill(desk: Desk, fields: NumberFields, actor: str) -> ActionResult:
    cancelled, undone = backfills.undo(desk, fields.number, actor, fields.reason)
    ended = outcomes.backfill_cancelled(fields.number, cancelled) if cancelled else ""
    effects = outcomes.undone(undone) if undone else ""
    message = "; ".join(filter(None, (ended, effects))) or f"backfill {fields.number}: nothing that can be undone"
    return ActionResult(message, len(undone.actions) if undone else 0)


def _apply(desk: Desk, fields: NamedFields, actor: str) -> ActionResult:
    if fields.expected is None:
        raise BadInput("expected: missing; give the number of deletions that are held")
    number = sources.apply_deletions(desk, fields.name, actor, fields.reason, expected=fields.expected)
    return ActionResult(outcomes.deletions_applied(fields.name, number), number)


def _retry(desk: Desk, fields: ItemsFields, actor: str) -> ActionResult:
    number, rest = quarantine.retry(desk, fields.selection, actor, fields.reason)
    left = f"; {rest:,} cannot be retried" if rest else ""
    return ActionResult(f"{outcomes.retried(number)}, for the next sync of the source{left}", number)


def _discard(desk: Desk, fields: ItemsFields, actor: str) -> ActionResult:
    number = quarantine.discard(desk, fields.selection, actor, fields.reason)
    return ActionResult(outcomes.discarded(number), number)


def _note(desk: Desk, fields: ItemsFields, actor: str) -> ActionResult:
    number = quarantine.note(desk, fields.selection, fields.text, actor)
    return ActionResult(outcomes.noted(number), number)


def _purge(desk: Desk, fields: AgeFields, actor: str) -> ActionResult:
    number = quarantine.purge(desk, timedelta(days=fields.days), actor, fields.reason or "purged")
    return ActionResult(outcomes.purged(number), number)


def _back_up(desk: Desk, fields: ReasonFields, actor: str) -> ActionResult:
    """Start a backup. It takes minutes, so it works in a thread; it needs only this process and the ledger's file."""
    backups.require_none_running(desk.home)

    def make() -> None:
        # `BackupStatus` has the reason.
        with suppress(CatchmentError):
            backups.make(desk, actor, fields.reason)

    threading.Thread(target=make, daemon=True).start()
    return ActionResult("A backup is being made; Health shows when it is complete")


def _take_out(desk: Desk, fields: ConfirmedFields, actor: str) -> ActionResult:
    waiting = hosts.take_out(desk, fields.confirmed, actor, fields.reason)
    sources = f"; its sources wait, run each on another host: {', '.join(waiting)}" if waiting else ""
    return ActionResult(
        f"{fields.name} is taken out; its disk may still have content of the library{sources}", len(waiting)
    )


def _choose_model(desk: Desk, fields: SettingFields, actor: str) -> ActionResult:
    is_requested = library.choose_model(desk, fields.setting, actor, fields.reason)
    paused = "" if is_requested else "; the deployment embed is paused, resume it in the Prefect UI"
    return ActionResult(f"The model of search by meaning is {fields.setting}{paused}")


def _choose_recognition(desk: Desk, fields: SettingFields, actor: str) -> ActionResult:
    is_requested = library.choose_recognition(desk, fields.setting, actor, fields.reason)
    paused = "" if is_requested else "; the deployment recognize is paused, resume it in the Prefect UI"
    return ActionResult(f"The recognition of text on pictures is {fields.setting}{paused}")


def _add_sink(desk: Desk, fields: SinkFields, actor: str) -> ActionResult:
    sinks.add(
        desk,
        fields.kind,
        fields.place,
        fields.name,
        actor,
        fields.reason,
        secret=fields.password,
        consented=fields.consent,
    )
    return ActionResult(outcomes.SINK_ADDED.format(fields.name))


def _no_value(_result: object) -> None:
    """A program gets nothing of the result."""


def _of_source(fields: NamedFields | SourceFields | ChangeFields) -> str:
    return f"/sources/{quote(fields.name, safe='')}"


def _of_change(fields: ChangeFields) -> str:
    return _of_source(fields) if fields.secret else f"{_of_source(fields)}/settings"


def _part_of_source(part: str) -> Callable[[Any], str]:
    return lambda fields: f"/sources/{quote(fields.name, safe='')}/{part}"


def _limits(fields: NamedFields | LimitFields) -> str:
    kind, _, name = fields.name.partition(":")
    if kind == "source":
        return f"/sources/{quote(name, safe='')}/limits"
    return f"/sources/limits?{urlencode({'scope': fields.name})}"


def _of_job(fields: NumberFields) -> str:
    return f"/jobs/{fields.number}"


def _health(_fields: object) -> str:
    return "/health"


def _trouble(_fields: object) -> str:
    return "/trouble"


def _of_cluster(fields: ItemsFields) -> str:
    return f"/trouble/clusters/{quote(fields.cluster, safe='')}" if fields.cluster else "/trouble"


ACTIONS: Mapping[str, WebAction[Any]] = {
    "sources.add": WebAction(SourceFields, _add, _of_source),
    "sources.change": WebAction(ChangeFields, _change, _of_change),
    "sources.move": WebAction(MoveFields, _move, _of_source),
    "sources.remove": WebAction(RemoveFields, _remove, lambda _fields: "/sources"),
    "sources.pause": WebAction(NamedFields, _simply(sources.pause, outcomes.PAUSED.format), _of_source),
    "sources.resume": WebAction(NamedFields, _resume, _of_source),
    "sources.test": WebAction(NamedFields, _simply(sources.test, outcomes.TESTED.format), _of_source),
    "sources.apply_deletions": WebAction(NamedFields, _apply, _trouble),
    "sources.drop_deletions": WebAction(
        NamedFields, _simply(sources.drop_deletions, outcomes.deletions_dropped), _trouble
    ),
    "syncs.start": WebAction(NamedFields, _start, _of_source),
    "syncs.start_all": WebAction(EverySourceFields, _start_all, lambda _fields: "/syncs"),
    "syncs.cancel": WebAction(NamedFields, _simply(syncs.cancel, outcomes.SYNC_CANCELLED.format), _of_source),
    "syncs.undo": WebAction(
        NumberFields,
        _simply(syncs.undo, lambda _, undone: outcomes.undone(undone), lambda undone: undone.number),
        lambda fields: f"/syncs/{fields.number}",
    ),
    "backfills.plan": WebAction(
        PlanFields, _plan_backfill, lambda fields: f"/backfills?{urlencode({'source': fields.name})}"
    ),
    **{
        f"backfills.{name}": WebAction(NumberFields, act, lambda fields: f"/backfills/{fields.number}")
        for name, act in (
            ("start", _simply(backfills.start, outcomes.BACKFILL_STARTED.format)),
            ("pause", _simply(backfills.pause, outcomes.BACKFILL_PAUSED.format)),
            ("resume", _simply(backfills.resume, outcomes.BACKFILL_STARTED.format)),
            ("cancel", _simply(backfills.cancel, outcomes.backfill_cancelled)),
            ("retry", _simply(backfills.retry, outcomes.backfill_retried)),
            ("undo", _undo_backfill),
        )
    },
    "consents.give": WebAction(ConsentFields, _give, _part_of_source("consent")),
    "sources.allow_hosts": WebAction(HostsFields, _allow_hosts, _part_of_source("consent")),
    "inbox.enqueue": WebAction(InboxFields, _enqueue, lambda _fields: f"/sources/{inbox.INBOX}"),
    "consents.revoke": WebAction(RemoveFields, _revoke, _part_of_source("consent")),
    "quarantine.retry": WebAction(ItemsFields, _retry, _trouble),
    "quarantine.discard": WebAction(ItemsFields, _discard, _trouble),
    "quarantine.note": WebAction(ItemsFields, _note, _of_cluster),
    "quarantine.purge": WebAction(AgeFields, _purge, lambda _fields: "/jobs?state=quarantined"),
    "jobs.cancel": WebAction(NumberFields, _simply(jobs.cancel, outcomes.JOB_CANCELLED.format), _of_job),
    "jobs.prioritize": WebAction(NumberFields, _simply(jobs.prioritize, outcomes.JOB_PRIORITIZED.format), _of_job),
    "limits.change": WebAction(LimitFields, _limit, _limits),
    "limits.clear": WebAction(
        NamedFields, _simply(limits.clear, lambda _, scope: outcomes.LIMITS_REMOVED.format(scope)), _limits
    ),
    "incidents.acknowledge": WebAction(
        NumberFields,
        _simply(incidents.acknowledge, outcomes.ACKNOWLEDGED.format),
        lambda fields: f"/incidents/{fields.number}",
    ),
    "limits.reset_breaker": WebAction(
        NamedFields, _simply(limits.reset_breaker, lambda _, keys: outcomes.breakers_closed(keys), len), _trouble
    ),
    "backups.make": WebAction(ReasonFields, _back_up, _health),
    "sinks.add": WebAction(SinkFields, _add_sink, _health),
    "sinks.pause": WebAction(NamedFields, _simply(sinks.pause, outcomes.PAUSED.format), _health),
    "sinks.resume": WebAction(NamedFields, _simply(sinks.resume, outcomes.SINK_RESUMED.format), _health),
    "sinks.rebuild": WebAction(NamedFields, _simply(sinks.rebuild, outcomes.SINK_REBUILT.format), _health),
    "sinks.adopt": WebAction(NamedFields, _simply(sinks.adopt, outcomes.SINK_ADOPTED.format, _no_value), _health),
    "sinks.remove": WebAction(
        NamedFields,
        _simply(sinks.remove, lambda name, sink: outcomes.SINK_REMOVED.format(name, sink.place), _no_value),
        _health,
    ),
    "hosts.take_out": WebAction(ConfirmedFields, _take_out, _health),
    "library.choose_model": WebAction(SettingFields, _choose_model, _health),
    "library.choose_recognition": WebAction(SettingFields, _choose_recognition, _health),
}
"""The actions, by the module and the name of their function in `deployments.actions`."""


_NOT_KEPT = ("secret", "form", "confirm", "consent")
"""Fields of a refused form that a person types again."""


def forms(desk: Desk, site: Site) -> list[Route]:
    """Return the route of the page's forms."""

    async def post(request: Request) -> Response:
        form = await form_fields(request)
        action = _action(request)
        try:
            fields = action.fields.model_validate(form)
            result = await _perform(action, desk, fields)
        except (ValidationError, CatchmentError) as refusal:
            typed = {name: value for name, value in form.items() if name not in _NOT_KEPT}
            notice, address = Notice(_problem(refusal), typed, is_refusal=True), _form_page(request)
        else:
            notice, address = Notice(result.message), action.after(fields)
        site.notify(request.scope["session"], notice)
        return RedirectResponse(address, 303)

    return [Route("/actions/{name}", post, methods=["POST"])]


def interface(desk: Desk) -> list[Route]:
    """Return the route of `/api/v1`, which answers `{"message": "…", "result": …}`."""

    async def post(request: Request) -> Response:
        action = _action(request)
        try:
            fields = action.fields.model_validate_json(await request.body() or b"{}")
            result = await _perform(action, desk, fields)
        except ValidationError as invalid:
            return error(400, problem_of(invalid))
        return JSONResponse(result._asdict())

    return [Route("/actions/{name}", post, methods=["POST"])]


async def _perform(action: WebAction[F], desk: Desk, fields: F) -> ActionResult:
    return await to_thread.run_sync(action.act, desk, fields, operator())


def _action(request: Request) -> WebAction[Any]:
    action = ACTIONS.get(request.path_params["name"])
    if action is None:
        raise HTTPException(404, "no such action")
    return action


def _problem(refusal: Exception) -> str:
    return problem_of(refusal) if isinstance(refusal, ValidationError) else str(refusal)


def _form_page(request: Request) -> str:
    """Return the address of the page with the form. `Guard` has checked that it is one of ours."""
    page = urlsplit(request.headers.get("referer", "/trouble"))
    return f"/{page.path.lstrip('/')}{'?' if page.query else ''}{page.query}"
