"""The sinks of a home with their deployments: add, remove, pause, resume and check them. Does not import Prefect."""

from __future__ import annotations

import re
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

import sinks
from catchment.errors import BadInput, NotFound
from catchment.ledger import Ledger, SinkRow, SinkState
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.sync import supply
from deployments.server.client import api
from deployments.server.running import require_running, running

if TYPE_CHECKING:
    from catchment.sync.supply import Differences

_FLOW = "deliver"
_ENTRYPOINT = "flows.deliver.deliver"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")


def add(home: Home, ledger: Ledger, kind: str, place: str, name: str, secret: str | None, actor: str) -> SinkRow:
    """Add a sink, which receives the whole library next.

    Raises BadInput, Refused if the place has other data, SinkUnavailable if it cannot be written.
    """
    if not _NAME.match(name):
        raise BadInput(f"{name!r}: not a valid name; use lower-case letters, digits, - and _")
    if any(sink.name == name for sink in ledger.outbox.all()):
        raise BadInput(f"{name}: a sink with this name exists; choose another name")
    if sinks.is_folder(kind):
        place = str(Path(place).expanduser().absolute())
    if Membership.of(home):
        # The first host that deploys a sink copies to it, so this one must.
        require_running(home)
    with sinks.opened(kind, place, secret, create=True) as made:
        wants_vectors = made.wants_vectors
        # An empty place may still have the stamp of a former sink.
        made.mark("")
    added = ledger.outbox.add(name, kind, place, secret, actor, wants_vectors=wants_vectors)
    start_delivery(home, name)
    return added


def remove(home: Home, ledger: Ledger, name: str, actor: str, reason: str = "") -> None:
    """Forget a sink and delete its deployment. Its copies stay. Raises NotFound."""
    sink = ledger.outbox.get(name)
    # Ends a delivery between two batches.
    ledger.outbox.set_state(name, SinkState.PAUSED, actor, reason)
    if server := running(home):
        from deployments.sources.deploy import undeploy

        undeploy(home, server, name, _ENTRYPOINT)
    with supply.alone(home, sink):
        ledger.outbox.remove(name, actor, reason)


def set_state(home: Home, ledger: Ledger, name: str, state: SinkState, actor: str, reason: str = "") -> None:
    """Pause, resume or refill a sink. Raises NotFound."""
    ledger.outbox.set_state(name, state, actor, reason)
    if state is not SinkState.PAUSED:
        start_delivery(home, name)


def adopt(home: Home, ledger: Ledger, name: str, actor: str, reason: str = "") -> None:
    """Take over the place of a sink from another home or sink, and make it equal to the library.

    Raises NotFound, SinkUnavailable.
    """
    supply.adopt(home, ledger, name, sinks.opened, actor, reason)
    start_delivery(home, name)


def look(home: Home, name: str) -> None:
    """Look at the place of a sink that has nothing to receive; see `supply.look`. Raises NotFound, LedgerError."""
    with closing(Ledger.inspect(home)) as ledger:
        supply.look(home, ledger, name, sinks.opened)


def check(ledger: Ledger, name: str) -> Differences:
    """Compare a sink with the library. Raises NotFound, SinkUnavailable, Refused if its place is another's."""
    sink = ledger.outbox.get(name)
    with sinks.opened(sink.kind, sink.place, sink.secret) as place:
        supply.own_stamp(ledger.outbox, sink, place)
        return supply.differences(ledger, place, ledger.outbox.refusals(sink, sink.refused))


def start_delivery(home: Home, name: str) -> None:
    """Deploy a sink and request a delivery, if Catchment runs; otherwise, its next start does."""
    if server := running(home):
        deploy_sinks(home)
        with api(server) as client:
            answer = client.get(f"/deployments/name/{_FLOW}/{name}")
            if not answer.is_missing:
                body = {"state": {"type": "SCHEDULED"}, "name": f"{name}: waiting"}
                client.post(f"/deployments/{answer.json()['id']}/create_flow_run", json=body).raise_for_status()


def deploy_sinks(home: Home) -> None:
    """Give each sink a deployment with its name, unless another host did. No effect if Catchment does not run."""
    from deployments.sources.deploy import deploy

    names = list[str]()
    with suppress(NotFound), closing(Ledger.inspect(home)) as ledger:
        names = [sink.name for sink in ledger.outbox.all()]
    if names and (server := running(home)):
        file = home.run / "sinks.yaml"
        atomic_files.write(file, orjson.dumps({"pull": [], "deployments": [_deployment(name) for name in names]}))
        deploy(home, server, file=file)


def _deployment(name: str) -> dict[str, object]:
    return {
        "name": name,
        "description": "Copies documents to a sink after each change. Pause it with `catchment sinks pause`.",
        "entrypoint": _ENTRYPOINT,
        "tags": ["sink"],
        "parameters": {"name": name},
        "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
        "work_pool": {"name": "catchment"},
    }
