"""Programs push documents to the real web process."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from catchment.content import pushed_files
from catchment.model import RawContent
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from console.main import main
from tests.web.conftest import connected, served

PATH = "/api/v1/documents"


def token_of(name: str, source: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["tokens", "add", name, "--source", source]) == 0
    return capsys.readouterr().out.strip()


@pytest.fixture
def prepared(home: Home, capsys: pytest.CaptureFixture[str]) -> str:
    """A home with the sources `clips` and `other`; the token of `clips`."""
    for name in ("clips", "other"):
        assert main(["add", "pushed", name, "--name", name]) == 0
    return token_of("robot", "clips", capsys)


@contextmanager
def pushing(home: Home, token: str) -> Iterator[httpx.Client]:
    with (
        served(home) as port,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=60,
        ) as client,
    ):
        yield client


@pytest.fixture
def client(home: Home, prepared: str) -> Iterator[httpx.Client]:
    with pushing(home, prepared) as made:
        yield made


def files(home: Home, source: str = "clips") -> dict[str, bytes]:
    """Return the documents of a source by their key."""
    stored = (home.pushed / source).glob("*/[!.]*")
    return {file.name: file.read_bytes() for file in stored}


def facts(home: Home, key: str) -> Any:
    return pushed_files.described(home.pushed / "clips", key)


def test_documents_of_each_form_are_stored_with_their_facts(home: Home, client: httpx.Client) -> None:
    note = {
        "key": "note",
        "markdown": "# Weir\n",
        "title": "A weir",
        "date": "2026-03-01T08:00:00Z",
        "tags": ["river", "a: b"],
    }
    answer = client.post(PATH, json=note)
    where = f"{PATH}/note/state"
    assert (answer.status_code, answer.headers["location"]) == (202, where)
    assert answer.json() == {"key": "note", "state": "waiting", "changed": True, "where": where}
    assert client.get(where).json() == {"key": "note", "state": "waiting", "document": None}
    page = {"html": "<p>Page</p>", "address": "https://example.org/a"}
    assert client.post(PATH, json=page, headers={"Idempotency-Key": "page"}).status_code == 202
    plain = client.put(f"{PATH}/report.pdf", content=b"%PDF-", headers={"Content-Type": "application/pdf"})
    assert (plain.status_code, plain.json()["key"]) == (202, "report.pdf")
    assert facts(home, "report.pdf").media_type == "application/pdf"
    derived = client.post(
        f"{PATH}?name=../../etc/a.txt", content=b"text", headers={"Content-Type": "text/plain"}
    ).json()
    assert files(home) == {
        "note": b'---\ntags: ["river","a: b"]\n---\n# Weir\n',
        "page": b"<p>Page</p>",
        "report.pdf": b"%PDF-",
        derived["key"]: b"text",
    }
    stored = facts(home, "note")
    assert (stored.name, stored.title, stored.metadata) == ("note.md", "A weir", {"pushed_by": "robot"})
    assert stored.modified.isoformat() == "2026-03-01T08:00:00+00:00"
    assert facts(home, "page").address == facts(home, "page").metadata["url"] == "https://example.org/a"
    assert facts(home, derived["key"]).name == "a.txt"


def test_repeated_push_gives_one_document_and_another_replaces_it(home: Home, client: httpx.Client) -> None:
    first, again = (client.post(PATH, json={"text": "same"}).json() for _ in range(2))
    assert (first["key"], first["changed"], again["changed"]) == (again["key"], True, False)
    assert len(files(home)) == 1
    for text in ("one", "two"):
        assert client.put(f"{PATH}/k", json={"text": text}).json()["changed"]
    assert files(home)["k"] == b"two"
    assert [client.delete(f"{PATH}/k").json()["removed"] for _ in range(2)] == [True, False]
    assert "k" not in files(home)
    assert client.get(f"{PATH}/k/state").status_code == 404


def test_batch_reports_each_line(home: Home, client: httpx.Client) -> None:
    lines = [{"key": "a", "text": "A"}, {"key": "b", "text": "B", "markdown": "B"}, {"key": "../c", "text": "C"}]
    body = "\n".join([*map(json.dumps, lines), "", "no json", ""])
    answer = client.post(PATH, content=body, headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": "x"})
    assert answer.status_code == 422
    first, *rest = answer.json()["results"]
    assert (first["line"], first["key"]) == (1, "a")
    assert all("error" in line for line in rest)
    assert [line["line"] for line in rest] == [2, 3, 5]
    assert files(home) == {"a": b"A"}
    many = client.post(PATH, content=b"{}\n" * 1_000 + b"{}", headers={"Content-Type": "application/jsonl"})
    assert (many.status_code, "1,000 lines" in many.json()["error"]) == (400, True)


def test_saved_page_of_an_add_on_is_replaced_when_it_is_saved_again(home: Home, client: httpx.Client) -> None:
    for text in ("<p>once</p>\r\n--x", "<p>twice</p>"):
        answer = client.post(
            PATH,
            files={"file": ("A page.html", text.encode(), "text/html")},
            data={"address": "https://example.org/bank?id=1"},
            headers={"Origin": "moz-extension://0b5c", "Accept": "multipart/form-data"},
        )
        assert answer.status_code == 201
    key = answer.json()["key"]
    assert files(home) == {key: b"<p>twice</p>"}
    stored = facts(home, key)
    assert (stored.name, stored.media_type, stored.address) == (
        "A page.html",
        "text/html",
        "https://example.org/bank?id=1",
    )
    cut = client.post(PATH, content=b"--b\r\n\r\nx", headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert (cut.status_code, "no end" in cut.json()["error"]) == (400, True)
    assert client.post(PATH, json={"text": "x"}, headers={"Origin": "https://example.org"}).status_code == 403


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": "x\0"},
        {"text": "x", "key": "a/b"},
        {"text": "x", "key": ".hidden"},
        {"text": "x", "key": "k" * 121},
        {"text": "x", "key": "half.part"},
        {"text": "x", "key": "a\0"},
        {"text": "x", "colour": "red"},
        {"text": "x", "source": "other"},
        {"text": "x", "source": "nowhere"},
        {"text": "x", "address": "javascript:1"},
        {"text": "x", "title": "two\nlines"},
        {"text": "x", "address": "https://ada:secret@example.org/"},
        {"text": "x", "date": "2026-03-01"},
        {"text": "x", "date": 1561939200},
        {"text": "x", "date": "yesterday"},
        {"html": "x", "tags": ["a"]},
        {"markdown": "---\na: b\n---\n", "tags": ["a"]},
    ],
)
def test_invalid_push_is_refused_and_stores_nothing(home: Home, client: httpx.Client, fields: dict[str, Any]) -> None:
    assert client.post(PATH, json=fields).status_code == 400
    assert files(home) == files(home, "other") == {}


def test_token_admits_to_its_source_alone(home: Home, client: httpx.Client, capsys: pytest.CaptureFixture[str]) -> None:
    other = {"Authorization": f"Bearer {token_of('second', 'other', capsys)}"}
    assert client.put(f"{PATH}/k", json={"text": "of other"}, headers=other).status_code == 202
    assert client.get(f"{PATH}/k/state").status_code == 404
    assert client.delete(f"{PATH}/k").json()["removed"] is False
    assert (files(home), files(home, "other")) == ({}, {"k": b"of other"})
    assert [client.get(f"/api/v1/{path}").status_code for path in ("overview", "documents/1", "search?text=a")] == [
        401
    ] * 3
    assert client.post("/api/v1/actions/syncs.start_all", json={}).status_code == 401
    with connected(home, client.base_url.port or 0) as operator:
        assert operator.put(f"{PATH}/k", json={"text": "x"}).status_code == 401
    assert main(["tokens", "revoke", "robot"]) == 0
    assert client.put(f"{PATH}/k", json={"text": "x"}).status_code == 401
    assert main(["consent", "revoke", "other", "--yes"]) == 0
    with pushing(home, other["Authorization"].removeprefix("Bearer ")) as restarted:
        refused = restarted.put(f"{PATH}/k", json={"text": "x"})
    assert (refused.status_code, files(home, "other")) == (409, {})


def test_hostile_program_cannot_fill_disk_and_memory(home: Home, client: httpx.Client) -> None:
    assert main(["sources", "set", "clips", "limits.max_mb=1"]) == 0
    assert client.put(f"{PATH}/k", content=bytes(1_000_001)).status_code == 413
    assert client.put(f"{PATH}/k", content=iter([bytes(1_000_000)] * 3)).status_code == 413
    assert client.put(f"{PATH}/k", content=bytes(1_000_000)).status_code == 202
    codes = [client.put(f"{PATH}/k", content=b"x").status_code for _ in range(600)]
    assert codes[0] == 202 and codes[-1] == 429
    assert client.put(f"{PATH}/k", content=b"x").headers["retry-after"] == "1"
    assert list(files(home)) == ["k"]


def test_restart_does_not_permit_more_requests(home: Home, prepared: str) -> None:
    for _ in range(2):
        with pushing(home, prepared) as client:
            start = time.monotonic()
            codes = [client.put(f"{PATH}/k", content=b"x").status_code for _ in range(120)]
            # A few may be sent at once; then ten a second, which is all that a busy machine does.
            permitted = 65 + 10 * (time.monotonic() - start)
            assert codes.count(202) + codes.count(200) <= permitted
            assert 429 in codes or permitted >= len(codes)


def test_full_source_refuses_pushes_also_after_a_restart(home: Home, prepared: str) -> None:
    assert main(["sources", "set", "clips", "max_gb=0.0002"]) == 0
    with pushing(home, prepared) as client:
        codes = [client.put(f"{PATH}/k{number}", content=b"x").status_code for number in range(40)]
        assert codes == [202] * 24 + [507] * 16, "each small document counts 8 kB"
    assert len(files(home)) == 24
    with pushing(home, prepared) as client:
        refused = client.put(f"{PATH}/k30", content=b"x")
        assert (refused.status_code, "raise max_gb" in refused.json()["error"]) == (507, True)
    for number in range(12):
        pushed_files.remove(home.pushed / "clips", f"k{number}")
    with pushing(home, prepared) as client:
        assert client.put(f"{PATH}/k30", content=b"x").status_code == 202


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["tokens", "revoke", "robot"], b"401"),
        (["sources", "remove", "clips", "--yes"], b"401"),
        (["consent", "revoke", "clips", "--yes"], b"409"),
    ],
)
def test_push_that_arrives_after_a_revocation_is_refused(
    home: Home, prepared: str, command: list[str], code: bytes
) -> None:
    with pushing(home, prepared) as client:
        port = client.base_url.port or 0
        head = f"PUT {PATH}/late HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {prepared}\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
            slow.sendall(head.encode() + b"Content-Length: 20\r\n\r\n0123456789")
            time.sleep(0.3)
            assert main(command) == 0
            slow.sendall(b"0123456789")
            assert slow.recv(1_000).split()[1] == code
    assert files(home) == {}
    assert (home.pushed / "clips").exists() == (command[0] == "tokens")


def test_push_that_is_stored_during_a_removal_leaves_nothing(home: Home, prepared: str) -> None:
    root = home.pushed / "clips"
    with ThreadPoolExecutor() as threads:
        with atomic_files.alone(root):
            raw = RawContent(b"x", "x.txt")
            pushes = [threads.submit(pushed_files.put, root, f"k{number}", raw) for number in range(3)]
            time.sleep(0.2)
            shutil.rmtree(root)
        assert {type(push.exception(timeout=60)) for push in pushes} == {FileNotFoundError}
    assert not root.exists()


def test_full_disk_leaves_a_document_as_it_was(home: Home, prepared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = home.pushed / "clips"
    assert pushed_files.put(root, "k", RawContent(b"old", "old.txt", "Old"))
    flush = atomic_files.flush

    def flush_facts_alone(path: Path) -> None:
        if path.name.startswith(".k~"):
            raise OSError(errno.ENOSPC, "full")
        flush(path)

    monkeypatch.setattr(atomic_files, "flush", flush_facts_alone)
    with pytest.raises(OSError, match="full"):
        pushed_files.put(root, "k", RawContent(b"new", "new.txt", "New"))
    assert (files(home), facts(home, "k").title) == ({"k": b"old"}, "Old")
    assert len([file for file in root.rglob("*") if file.is_file()]) == 2


@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        ({"Content-Type": "application/x-www-form-urlencoded"}, b'{"text": "x"}', "name the type"),
        ({"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(b"x", mtime=0), "Content-Encoding"),
        ({"Content-Type": "multipart/form-data"}, b"--b\r\n\r\nx\r\n--b--", "no boundary"),
    ],
)
def test_body_that_would_be_stored_as_something_else_is_refused(
    home: Home, client: httpx.Client, headers: dict[str, str], body: bytes, problem: str
) -> None:
    refused = client.post(PATH, content=body, headers=headers)
    assert (refused.status_code, problem in refused.json()["error"]) == (400, True)
    assert files(home) == {}


def test_form_with_two_files_or_a_repeated_field_is_refused(home: Home, client: httpx.Client) -> None:
    two = [(name, (f"{name}.txt", b"x", "text/plain")) for name in ("file", "other")]
    assert "more than one file" in client.post(PATH, files=two).json()["error"]
    assert "title: given twice" in client.post(f"{PATH}?title=a&title=b", content=b"x").json()["error"]
    assert files(home) == {}
    assert client.put(f"{PATH}/untyped", content=b"%PDF-").status_code == 202
    assert facts(home, "untyped").media_type == "application/octet-stream"
    note = client.post(
        PATH,
        files={"file": ("n.txt", "вода".encode("cp1251"), "text/plain; charset=cp1251")},
        data={"tags": "a, b", "title": "T"},
    )
    assert note.status_code == 201
    stored = facts(home, note.json()["key"])
    assert (stored.encoding, stored.title, stored.name) == ("cp1251", "T", "n.txt.md")


def test_push_after_a_kill_before_the_answer_gives_one_document(
    home: Home, prepared: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The process kills itself when the content is in place.
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nfrom catchment.content import pushed_files\nput = pushed_files.put\n"
        "def put_and_die(*given):\n    put(*given)\n    os.kill(os.getpid(), 9)\n"
        "pushed_files.put = put_and_die\n"
    )
    request = {"key": "k", "text": "once"}
    import tests.web.conftest as web

    with monkeypatch.context() as patch:
        patch.setattr(web, "PROJECT", f"{tmp_path}{os.pathsep}{web.PROJECT}")
        with pushing(home, prepared) as client, pytest.raises(httpx.RemoteProtocolError):
            client.post(PATH, json=request)
    (home.run / "web.json").unlink()
    with pushing(home, prepared) as client:
        again = client.post(PATH, json=request)
    assert (again.status_code, again.json()["changed"]) == (202, False)
    assert files(home) == {"k": b"once"}


def test_log_has_neither_token_nor_content(home: Home, prepared: str) -> None:
    with pushing(home, prepared) as client:
        client.post(PATH, content=b"zyxcontent", headers={"Content-Type": "application/json"})
        client.post(PATH, json={"text": "zyxcontent", "key": "zyx/key"})
    log = (home.logs / "web.log").read_text()
    assert prepared not in log and "zyx" not in log
