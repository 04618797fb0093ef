"""The relations in a graph database: they do not depend on the order in which their ends arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import sinks
from catchment.errors import SinkUnavailable
from catchment.model import Entity, EntityKind, Link, LinkKind
from tests.sinks.conftest import GRAPH_PASSWORD, graph_session
from tests.sinks.test_folder import MAIL, NOTE

pytestmark = pytest.mark.full

_ANSWER = replace(
    MAIL,
    id=4,
    item="INBOX;UID=8",
    author="Ada <Ada@example.org>",
    properties={"message-id": "<2@x>", "in-reply-to": "<1@x>"},
    entities=(Entity(EntityKind.EMAIL, "ben@example.org", confidence=0.8),),
)
_DOCUMENTS = [
    replace(NOTE, links=(Link(LinkKind.WIKILINK, "viaduct"),), entities=(Entity(EntityKind.TAG, "works"),)),
    replace(NOTE, id=2, item="Old/Viaduct.md", title="Viaduct", entities=(Entity(EntityKind.PERSON, "Ada"),)),
    replace(MAIL, id=3, properties={"message-id": "<1@x>"}),
    _ANSWER,
    replace(MAIL, id=5, item="INBOX;UID=8;PART=2", title="plan.pdf"),
]
_RELATIONS = {
    ("Bridge", "LINKS_TO", "Viaduct", 1.0),
    ("Bridge", "TAGGED", "works", 1.0),
    ("Viaduct", "MENTIONS", "Ada", 1.0),
    ("4", "REPLIES_TO", "3", 1.0),
    ("4", "SENT_BY", "ada@example.org", 1.0),
    ("4", "MENTIONS", "ben@example.org", 0.8),
    ("plan.pdf", "ATTACHED_TO", "4", 1.0),
}


@pytest.fixture
def secret(graph: str, tmp_path: Path) -> str:
    """The reference to the password of a server with an empty database."""
    with graph_session(graph, GRAPH_PASSWORD) as session:
        session.run("MATCH (n) DETACH DELETE n").consume()
    (tmp_path / "password").write_text(GRAPH_PASSWORD)
    (tmp_path / "password").chmod(0o600)
    return f"file:{tmp_path / 'password'}"


def _relations(address: str) -> set[tuple[str, str, str, float]]:
    query = """MATCH (a:Document)-[r]->(b) WHERE NOT b:Name RETURN a.title AS a, a.id AS number, type(r) AS r,
        coalesce(b.title, b.key) AS b, b.id AS other, r.confidence AS c, r.source AS source, r.version AS version"""
    with graph_session(address, GRAPH_PASSWORD) as session:
        rows = session.run(query).data()
    assert all(row["source"] and row["version"] for row in rows)
    mail = {3: "3", 4: "4"}
    return {(mail.get(row["number"], row["a"]), row["r"], mail.get(row["other"], row["b"]), row["c"]) for row in rows}


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
def test_relations_are_the_same_in_any_order(graph: str, secret: str, order: Sequence[int]) -> None:
    with sinks.opened("neo4j", graph, secret, create=True) as opened:
        for n in order:
            opened.write([_DOCUMENTS[n]], [])
        assert _relations(graph) == _RELATIONS
        opened.write([replace(_DOCUMENTS[1], item="Old/Renamed.md", title="Renamed")], [3])
        left = {row for row in _RELATIONS if row[0] != "Viaduct" and row[1] not in ("LINKS_TO", "REPLIES_TO")}
        assert _relations(graph) == left | {("Renamed", "MENTIONS", "Ada", 1.0)}
        opened.write(_DOCUMENTS, [])
        assert _relations(graph) == _RELATIONS


def test_wrong_password_is_a_sink_that_is_away(graph: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong")
    (tmp_path / "wrong").chmod(0o600)
    with (
        pytest.raises(SinkUnavailable, match="the graph database cannot be used"),
        sinks.opened("neo4j", graph, f"file:{tmp_path / 'wrong'}"),
    ):
        pass
