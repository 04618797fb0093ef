"""What the real programs read: a local HTTP server with records, and files of dBASE."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

_PER_PAGE = 50
TOKEN = "s3cret-of-anna/0+1"


class Records:
    """A server of records: `/items` for anybody, and issues of the repository `o/r` as GitHub has them, for its token."""

    def __init__(self) -> None:
        self.items: dict[int, dict[str, Any]] = {}
        self.issues: dict[int, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.address = ""

    def put(self, number: int, minute: int, text: str = "") -> None:
        """Add or change a record in both."""
        moment = f"2026-01-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00Z"
        title, body = f"Item {number} ö", text or f"lorem *ipsum* {number}"
        dates = {"created_at": "2026-01-01T00:00:00Z", "updated_at": moment}
        self.items[number] = {"id": number, "title": title, "text": body, "nested": {"a": [number]}, **dates}
        user = {"login": "anna", "id": 1, "html_url": "https://example.org/anna"}
        self.issues[number] = {
            "id": 1_000 + number,
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "user": user,
            "labels": [{"id": 1, "name": "bug"}],
            "html_url": f"https://example.org/issues/{number}",
            **dates,
        }

    def answer(self, path: str, query: Mapping[str, str], token: str) -> tuple[int, Any, str]:
        """Return the status, the content and the next page of an address."""
        self.asked.append(f"{path}?{urlencode(query)}")
        since = query.get("since") or ""
        if path == "/items":
            rows = self.items
        elif path.startswith("/repos/o/r") and token not in (f"token {TOKEN}", f"Bearer {TOKEN}"):
            return 401, {"message": "Bad credentials"}, ""
        elif path == "/repos/o/r/issues":
            rows = self.issues
        elif path.startswith("/repos/o/r"):
            return 200, {"id": 1, "full_name": "o/r"} if path == "/repos/o/r" else [], ""
        else:
            return 404, {"message": "Not Found"}, ""
        chosen = sorted(
            (row for row in rows.values() if row["updated_at"] >= since),
            key=lambda row: str(row["updated_at"]),
            reverse=query.get("direction") == "desc",
        )
        page = int(query.get("page") or 1)
        part, more = chosen[(page - 1) * _PER_PAGE : page * _PER_PAGE], len(chosen) > page * _PER_PAGE
        following = f"{self.address}{path}?{urlencode({**query, 'page': page + 1})}" if more else ""
        if path == "/items":
            return 200, {"data": part, "next_page": page + 1 if more else None}, ""
        return 200, part, following


@contextmanager
def served() -> Iterator[Records]:
    """Yield a server on this machine with no records yet."""
    records = Records()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Write nothing."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            token = self.headers.get("Authorization", "")
            status, content, following = records.answer(parts.path.rstrip("/"), dict(parse_qsl(parts.query)), token)
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in (
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("X-RateLimit-Remaining", "5000"),
                ("X-RateLimit-Limit", "5000"),
                ("X-RateLimit-Reset", "9999999999"),
                *([("Link", f'<{following}>; rel="next"')] if following else []),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        records.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield records
        finally:
            server.shutdown()
            thread.join()


def write_dbf(path: Path, rows: Sequence[tuple[int, str, str]]) -> None:
    """Write a table of dBASE III with a number, a name and a text of at most 100 characters."""
    fields = (("ID", b"N", 8), ("NAME", b"C", 30), ("NOTES", b"C", 100))
    length = 1 + sum(size for _, _, size in fields)
    head = struct.pack("<BBBBIHH17xB2x", 3, 126, 1, 1, len(rows), 32 + 32 * len(fields) + 1, length, 3)
    described = b"".join(struct.pack("<11sc4xB15x", name.encode(), kind, size) for name, kind, size in fields)
    lines = (f" {number:>8}{name:<30}{text:<100}".encode("cp1252") for number, name, text in rows)
    path.write_bytes(head + described + b"\r" + b"".join(lines) + b"\x1a")
