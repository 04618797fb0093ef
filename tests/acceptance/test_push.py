"""A program pushes documents to a running Catchment, and a person finds them: also by the commands of docs/push.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance import document
from tests.acceptance.person import PROJECT, Person, at_terminal
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with at_terminal(tmp_path) as person:
        yield person


def test_pushed_document_is_found_undone_and_held_from_mass_deletion(person: Person, tmp_path: Path) -> None:
    person("add", "pushed", "clips", "--name", "clips").ok()
    token = person("tokens", "add", "robot", "--source", "clips").ok().out.strip()
    address = f"http://127.0.0.1:{(tmp_path / 'state' / 'web-port').read_text().strip()}/api/v1/documents"
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as client:

        def state(key: str) -> str:
            answer = client.get(f"{address}/{key}/state")
            return str(answer.json()["state"]) if answer.status_code == 200 else "none"

        for number in range(30):
            client.put(f"{address}/n{number}", json={"text": f"zyxweir number {number}"}).raise_for_status()
        until(lambda: {state(f"n{number}") for number in range(30)} == {"ready"})
        assert len(person.hits("zyxweir", "clips")) == 20
        assert client.put(f"{address}/n1", json={"text": "zyxweir number 1"}).status_code == 200
        # A new title alone is a change, and a document that comes back unchanged is ready.
        client.put(f"{address}/n2", json={"text": "zyxweir number 2", "title": "Zyxferry"}).raise_for_status()
        until(lambda: person.hits("title:zyxferry", "clips") and state("n2") == "ready")
        client.delete(f"{address}/n2").raise_for_status()
        until(lambda: state("n2") == "none")
        client.put(f"{address}/n2", json={"text": "zyxweir number 2", "title": "Zyxferry"}).raise_for_status()
        until(lambda: state("n2") == "ready")
        page = {"html": "<p>zyxpage</p>", "address": "https://example.org/a"}
        client.put(f"{address}/page", json=page).raise_for_status()
        until(lambda: state("page") == "ready")
        proof = person("prove", "clips").ok()
        assert "the library matches the source" in proof.out + proof.err
        client.put(f"{address}/bad.pdf", content=b"%PDF-1.4 damaged").raise_for_status()
        until(lambda: state("bad.pdf") == "quarantined")
        assert "cannot be read as application/pdf" in client.get(f"{address}/bad.pdf/state").json()["reason"]
        # One deletion that a program asks for is done, and can be undone.
        client.delete(f"{address}/n1").raise_for_status()
        until(lambda: state("n1") == "none")
        sync = person("syncs", "list", "--json").ok().json[0]["id"]
        person("undo", str(sync)).ok()
        assert person.hits('"number 1"', "clips")
        for number in range(2, 30):
            client.delete(f"{address}/n{number}").raise_for_status()
        until(lambda: person("deletions", "list", "--json").ok().json)
        assert person.hits('"number 29"', "clips")


def test_every_command_of_the_page_about_pushing_works_as_documented(person: Person, tmp_path: Path) -> None:
    variables = {**person.environment, "CATCHMENT_HOME": str(tmp_path / "state")}
    assert document.carry_out(PROJECT / "docs" / "push.md", variables, tmp_path) > 8
