"""What a running system says about its incidents: on the command line, on the page, and as events of Prefect."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from typing import Any

import httpx

from catchment.errors import TryAgain
from deployments.health.announcing import EVENT
from deployments.server.client import api
from deployments.server.running import Running
from tests.acceptance.person import Person

_PAGE = 50


def rows(person: Person, subject: str | None = None) -> list[dict[str, Any]]:
    """Return the incidents that the command lists, of one subject or of all."""
    found: list[dict[str, Any]] = person("incidents", "list", "--json").ok().json
    return [row for row in found if subject in (None, row["subject"])]


def open_reasons(person: Person, subject: str | None = None) -> list[str]:
    """Return the reason codes of the open incidents, as the command lists them."""
    return [row["reason"] for row in rows(person, subject) if row["state"] == "open"]


def page_reasons(person: Person) -> list[str]:
    """Return the reason codes of the open incidents, as the web process knows them."""
    headers = {"Authorization": f"Bearer {_read(person, 'web-token')}"}
    address = f"http://127.0.0.1:{running(person).page_port}/api/v1/incidents"
    found = httpx.get(address, headers=headers, trust_env=False, timeout=30).raise_for_status().json()
    return [row["reason"] for row in found["open"]]


def events(person: Person) -> set[tuple[str, str, int]]:
    """Return the events as (opened or closed, reason code, number); none while the server does not respond."""
    query = {"filter": {"event": {"prefix": [f"{EVENT}."]}}, "limit": _PAGE}
    try:
        with api(running(person)) as client:
            found = client.post("/events/filter", json=query).raise_for_status().json()["events"]
    except TryAgain:
        return set()
    for event in found:
        assert event["payload"].keys() == {"reason", "number"}
    return {
        (event["event"].removeprefix(f"{EVENT}."), event["payload"]["reason"], event["payload"]["number"])
        for event in found
    }


def running(person: Person) -> Running:
    """Return the record of the system of a home, which only the person's commands may see."""
    fields = json.loads(_read(person, "run/up.json"))
    del fields["identity"]
    started = datetime.fromisoformat(fields.pop("started")).astimezone(UTC)
    return Running(**fields, started=started, login=_read(person, "ui-login"))


def _read(person: Person, file: str) -> str:
    words = [*person.before, "cat", str(person.home / file)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
