"""A graph database with Bolt, the protocol of Neo4j: documents with their links, tags, people and addresses.

The place is an address such as `bolt://neo4j@localhost:7687/neo4j`. docs/sinks.md describes nodes and relations.

A link leads to a document that may arrive later, or be renamed. So documents and references meet at nodes `Name`, and relations
between documents are derived from these, in both directions, whenever one of the two is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import getaddresses
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import neo4j
from neo4j.exceptions import ClientError, DriverError, Neo4jError

from catchment.errors import BadInput, DocumentRefused, Refused, SinkUnavailable
from catchment.model import PART, DocumentCopy, Entity, EntityKind, LinkKind
from catchment.runtime.addresses import PASSWORD_IN_ADDRESS, host_of

_KINDS = {EntityKind.TAG: ("TAGGED", "Tag"), EntityKind.PERSON: ("MENTIONS", "Person")}
_KINDS |= {EntityKind.EMAIL: ("MENTIONS", "Address")}
_BETWEEN = ("LINKS_TO", "ATTACHED_TO", "REPLIES_TO")
_LABELS = ("Name", "Tag", "Person", "Address")
_PORT = 7687
_DIRECT = ("bolt", "bolt+s", "bolt+ssc")
"""Schemes of connections to the given host. With the others, the server names the hosts that receive the documents."""
_NOT_HERE = ("Security", "DatabaseNotFound", "Unauthorized")
"""Parts of the codes of errors that are not about a document."""


class Graph:
    """A graph database with Bolt."""

    batch = 200
    wants_vectors = False
    is_folder = False

    def __init__(self, place: str, password: str = "", *, create: bool = False) -> None:
        address = urlsplit(place)
        host = host_of(place)
        if address.scheme not in _DIRECT or not host:
            raise BadInput("neo4j: not an address; write bolt://USER@HOST:7687/DATABASE")
        if address.password is not None:
            raise BadInput(f"neo4j: {PASSWORD_IN_ADDRESS}")
        try:
            port = address.port or _PORT
        except ValueError:
            raise BadInput("neo4j: not a port; write a number up to 65535") from None
        url = f"{address.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        login = (unquote(address.username or ""), password)
        with _translated():
            self._driver = neo4j.GraphDatabase.driver(url, auth=login if password else None, telemetry_disabled=True)
            self._session = self._driver.session(database=address.path.strip("/") or None)
            try:
                if create:
                    self._create()
                if not self._ask("MATCH (mark:Catchment) RETURN mark.key AS key"):
                    raise SinkUnavailable("the database has no sink any more; restore it, or remove the sink")
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self._session.close()
        self._driver.close()

    def _create(self) -> None:
        for label, key in (("Document", "id"), ("Catchment", "key"), *((label, "key") for label in _LABELS)):
            constraint = f"CREATE CONSTRAINT catchment_{label.lower()} IF NOT EXISTS"
            self._session.run(f"{constraint} FOR (n:{label}) REQUIRE n.{key} IS UNIQUE").consume()
        if self._ask("MATCH (d:Document) RETURN d.id AS id LIMIT 1"):
            raise Refused("neo4j: the database has nodes Document already; choose another database")
        self._session.run("MERGE (:Catchment {key: 'sink'})").consume()

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        with _translated():
            self._session.execute_write(_put, changed, removed)

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        query = "MATCH (d:Document) WHERE d.id > $after AND d.id <= $last RETURN d.id AS id, d.version AS version"
        with _translated():
            return {row["id"]: row["version"] for row in self._ask(query, after=after, last=last)}

    def mark(self, stamp: str) -> None:
        with _translated():
            self._session.run("MATCH (mark:Catchment {key: 'sink'}) SET mark.stamp = $stamp", stamp=stamp).consume()

    def stamp(self) -> str | None:
        with _translated():
            rows = self._ask("MATCH (mark:Catchment {key: 'sink'}) RETURN mark.stamp AS stamp")
        return next((row["stamp"] for row in rows), None)

    def _ask(self, query: Any, **parameters: Any) -> list[dict[str, Any]]:
        return self._session.run(query, **parameters).data()


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of driver and server, without addresses."""
    try:
        yield
    except (Neo4jError, DriverError) as error:
        if isinstance(error, ClientError) and not any(part in str(error.code) for part in _NOT_HERE):
            raise DocumentRefused(f"refused by the graph database ({str(error.code).rpartition('.')[2]})") from error
        problem = f"the graph database cannot be used ({type(error).__name__})"
        raise SinkUnavailable(f"{problem}; check its address, login and log") from error


def _put(transaction: neo4j.ManagedTransaction, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
    def run(query: Any, **parameters: Any) -> list[dict[str, Any]]:
        return transaction.run(query, **parameters).data()

    ids = [*removed, *(document.id for document in changed)]
    near = "MATCH (d:Document)--(n) WHERE d.id IN $ids AND n.key IS NOT NULL RETURN DISTINCT n.key AS key"
    keys = [row["key"] for row in run(near, ids=ids)]
    run("MATCH (d:Document) WHERE d.id IN $ids DETACH DELETE d", ids=ids)
    run("UNWIND $rows AS row CREATE (d:Document) SET d = row", rows=[_document(each) for each in changed])
    names = [{"id": each.id, "key": key} for each in changed for key in _names(each)]
    match = "UNWIND $rows AS row MATCH (d:Document {id: row.id})"
    run(f"{match} MERGE (n:Name {{key: row.key}}) MERGE (d)-[:NAMED]->(n)", rows=names)
    about = "confidence: row.confidence, source: row.source, version: row.version"
    rows = [row for each in changed for row in _references(each)]
    run(f"{match} MERGE (n:Name {{key: row.key}}) CREATE (d)-[:REFERS {{type: row.type, {about}}}]->(n)", rows=rows)
    mentions = defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    for row in (row for each in changed for row in _mentions(each)):
        mentions[row["label"], row["type"]].append(row)
    for (label, relation), rows in mentions.items():
        node = f"MERGE (n:{label} {{key: row.key}})"
        run(f"{match} {node} CREATE (d)-[:{relation} {{{about}}}]->(n)", rows=rows)
    for relation in _BETWEEN:
        for end in ("a", "b"):
            run(
                f"""MATCH (a:Document)-[r:REFERS]->(:Name)<-[:NAMED]-(b:Document)
                WHERE {end}.id IN $ids AND r.type = $type AND a.id <> b.id MERGE (a)-[l:{relation}]->(b)
                SET l.confidence = r.confidence, l.source = r.source, l.version = r.version""",
                ids=ids,
                type=relation,
            )
    for label in _LABELS:
        run(f"MATCH (n:{label}) WHERE n.key IN $keys AND NOT (n)--() DELETE n", keys=keys)


def _document(document: DocumentCopy) -> dict[str, Any]:
    plain = ("id", "version", "source", "kind", "item", "title", "media_type", "language", "author")
    return {
        **{name: getattr(document, name) for name in plain},
        "created": document.created and document.created.isoformat(),
        "modified": document.modified and document.modified.isoformat(),
        "url": document.metadata.get("url"),
    }


def _names(document: DocumentCopy) -> set[str]:
    """Return the keys by which other documents refer to this one."""
    message = document.properties.get("message-id")
    return {
        _item(document, document.item),
        *(_link(document, name) for name in (document.item, *document.aliases)),
        *([f"message {message}"] if message else ()),
    }


def _references(document: DocumentCopy) -> Iterator[dict[str, Any]]:
    targets = {link.target for link in document.links if link.kind is not LinkKind.URL and link.target}
    keys = {(_link(document, target), "LINKS_TO") for target in targets}
    if PART in document.item:
        keys.add((_item(document, document.item.rpartition(PART)[0]), "ATTACHED_TO"))
    if answered := document.properties.get("in-reply-to"):
        keys.add((f"message {answered}", "REPLIES_TO"))
    for key, relation in sorted(keys):
        yield _row(document, key, relation, 1.0)


def _mentions(document: DocumentCopy) -> Iterator[dict[str, Any]]:
    best: dict[tuple[EntityKind, str], Entity] = {}
    for entity in document.entities:
        key = entity.kind, entity.value
        if entity.kind in _KINDS and (key not in best or best[key].confidence < entity.confidence):
            best[key] = entity
    for (kind, value), entity in best.items():
        relation, label = _KINDS[kind]
        yield {**_row(document, value, relation, entity.confidence), "label": label}
    for name, address in getaddresses([document.author or ""]):
        if address and "@" in address:
            yield {**_row(document, address.lower(), "SENT_BY", 1.0), "label": "Address"}
        elif name or address:
            yield {**_row(document, name or address, "SENT_BY", 1.0), "label": "Person"}


def _row(document: DocumentCopy, key: str, relation: str, confidence: float) -> dict[str, Any]:
    about = {"source": document.source, "version": document.version, "confidence": confidence}
    return {"id": document.id, "key": key, "type": relation, **about}


def _item(document: DocumentCopy, locator: str) -> str:
    return f"item {document.source} {locator}"


def _link(document: DocumentCopy, target: str) -> str:
    """Return the key of a link: the file name, as in a vault, without regard to folders and case."""
    return f"link {document.source} {PurePosixPath(target).name.removesuffix('.md').casefold()}"
