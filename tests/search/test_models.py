"""Models: settings, the built-in one, and servers of embeddings that stop, lie or refuse, on a real socket."""

from __future__ import annotations

import gzip
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.errors import BadInput, MeaningOff, ModelChanged
from catchment.search.meaning import builtin, endpoint
from catchment.search.meaning.choice import checked, load
from catchment.search.meaning.models import Model, Refusal, quantized


@pytest.mark.parametrize(
    "setting", ["use", "off", "ollama:nomic-embed-text@http://127.0.0.1:11434", "openai:a/b:c@http://localhost:8080/x"]
)
def test_valid_settings_are_kept(setting: str) -> None:
    assert checked(setting) == setting


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("", "unknown setting"),
        ("on", "unknown setting"),
        ("ollama:x", "unknown setting"),
        ("ollama:x@file:///etc/passwd", "unknown setting"),
        ("ollama:x@http://192.168.1.2:11434", "not on this machine"),
        ("openai:x@https://example.org/v1", "not on this machine"),
        ("openai:x@http://localhost.example.org", "not on this machine"),
        ("openai:x@http://[broken", "not on this machine"),
        ("openai:x@http://user@example.org", "not on this machine"),
        ("openai:x@http://127.0.0.1?@example.org", "not on this machine"),
        ("openai:x@http://127.0.0.1\\@example.org", "not on this machine"),
        ("openai:x@http://127.0.0.1:80:example.org", "not on this machine"),
    ],
)
def test_invalid_settings_name_the_problem(setting: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        checked(setting)


@pytest.fixture(scope="module")
def model() -> Model:
    return load("use")


def test_builtin_model_accepts_any_text(model: Model) -> None:
    texts = ["a", "\udcff broken", "x" * 100_000, "行动", "\x00", "😀" * 50]
    vectors = model.passages(texts)
    assert all(isinstance(vector, bytes) and len(vector) == 512 for vector in vectors)
    assert math.hypot(*model.query("\ud800")) == pytest.approx(1, abs=1e-3)
    assert model.passages([]) == []


def test_rows_on_disk_are_those_of_the_table() -> None:
    table = np.arange(12, dtype=np.uint8).reshape(4, 3)
    assert builtin._RowsOnDisk(table)[np.array([3, 0, 3])].tolist() == table[[3, 0, 3]].tolist()


def test_damaged_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(builtin._FILES, "sp.model", "0" * 64)
    with pytest.raises(MeaningOff, match=r"sp\.model is damaged; reinstall"):
        load("use")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "_PACKAGE", "no_such_package")
    with pytest.raises(MeaningOff, match="not installed"):
        load("use")


def test_model_can_be_switched_off() -> None:
    with pytest.raises(MeaningOff, match="off; switch it on with `catchment model use`"):
        load("off")


def test_unusable_vectors_are_refusals() -> None:
    assert quantized([0.5, -1.0]) == bytes([64, 129])
    for vector in ([], [0.0, 0.0], [math.nan, 1.0], [1.0, math.inf], [1.0, math.nan]):
        assert isinstance(quantized(vector), Refusal)


class _Server(ThreadingHTTPServer):
    """A server of embeddings. `mood`: how it misbehaves; a number is the status for texts with "poison"."""

    mood = ""
    spoils_all = False
    """Whether the status is that of all texts."""
    on_texts: Callable[[list[str]], object] = staticmethod(lambda _texts: None)
    versions: Any
    texts: list[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        assert self.path == "/api/tags"
        if self.server.mood == "no versions":
            self._send(500, {"error": "no"})
        else:
            self._send(200, self.server.versions)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body["input"]
        self.server.texts += texts
        self.server.on_texts(texts)
        mood = self.server.mood
        is_poisoned = self.server.spoils_all or any("poison" in text for text in texts)
        if mood == "slow":
            time.sleep(1)
        if mood == "stalls" and is_poisoned:
            time.sleep(0.2)
        if mood in ("dies", "stalls") and is_poisoned:
            self.close_connection = True
        elif mood.isdigit() and is_poisoned:
            self._send(int(mood), {"error": "out of memory"}, Location="http://127.0.0.1:9/api/embed")
        elif mood == "not json":
            self._send(200, "hello")
        elif mood == "huge":
            self._send(200, {"embeddings": "x" * 70_000_000})
        elif mood == "deep":
            self._send(200, "[" * 100_000)
        elif mood == "bomb":
            self._send(200, gzip.compress(b" " * 10_000_000 + b"{}"), **{"Content-Encoding": "gzip"})
        elif mood.startswith("drips"):
            self._drip(b" " if mood == "drips" else b"X-Header: 1\r\n")
        else:
            self._embed(texts, mood)

    def _embed(self, texts: list[str], mood: str) -> None:
        width = 5 if mood == "wider" else 4
        rows: list[list[float]] = [[float(len(text)), 1.0, 2.0, *[3.0] * (width - 3)] for text in texts]
        for row, text in zip(rows, texts, strict=True):
            if mood in ("nan", "zero") and "poison" in text:
                row[:] = [math.nan if mood == "nan" else 0.0] * 4
            if mood == "ragged" and "poison" in text:
                row.append(1.0)
        if mood == "beyond floats":
            rows = [[10**400] * 4]
        if mood == "too wide":
            rows = [[1.0] * 20_000]
        if mood == "no numbers":
            rows = [[None, {}, 1, 2]]
        if mood == "short":
            rows = rows[:-1]
        if self.path == "/api/embed":
            self._send(200, {"embeddings": rows})
        else:
            data = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
            self._send(200, {"data": data[::-1]})

    def _drip(self, drop: bytes) -> None:
        """Answer in small pieces for 2 s. The answer is right in the end."""
        content = json.dumps({"embeddings": [[1, 1, 2, 3]]}).encode()
        begin, end = (b"\r\n", content) if drop == b" " else (b"", b"\r\n" + content)
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.0 200 OK\r\n" + begin)
            for _ in range(20):
                self.wfile.write(drop)
                time.sleep(0.1)
            self.wfile.write(end)

    def _send(self, code: int, body: Any, **headers: str) -> None:
        content = (
            body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serving() -> Iterator[_Server]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.texts = []
    server.versions = {"models": [{"name": "m:latest", "digest": "one"}]}
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def address(server: _Server, kind: str = "ollama") -> str:
    return f"{kind}:m@http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_endpoint_embeds_in_order(kind: str) -> None:
    with serving() as server:
        model = load(address(server, kind))
        assert model.dimensions == 4
        assert model.passages(["a", "bbbb"]) == [quantized([1.0, 1, 2, 3]), quantized([4.0, 1, 2, 3])]
        assert math.hypot(*model.query("abc")) == pytest.approx(1)


@pytest.mark.parametrize("mood", ["400", "413", "422"])
def test_refused_text_is_found_and_the_others_are_embedded(mood: str) -> None:
    with serving() as server:
        model = load(address(server))
        server.mood = mood
        vectors = model.passages(["one", "two", "poison", "four", "five"])
        assert [type(vector) for vector in vectors] == [bytes, bytes, Refusal, bytes, bytes]


PASSING = ("302", "401", "403", "404", "408", "429", "500", "501", "503", "dies", "nan", "zero", "ragged")


@pytest.mark.parametrize("mood", PASSING)
def test_text_that_fails_otherwise_is_left_for_later(mood: str) -> None:
    with serving() as server:
        model = load(address(server))
        server.mood = mood
        assert [vector is None for vector in model.passages(["one", "poison", "three"])] == [False, True, False]
        server.mood = ""
        assert None not in model.passages(["poison"])


@pytest.mark.full
@pytest.mark.parametrize(
    ("mood", "problem"),
    [
        ("wider", "number of dimensions"),
        ("short", "not in its format"),
        ("not json", "not JSON"),
        ("huge", "too large"),
        ("deep", "not JSON"),
        ("bomb", "not JSON"),
        ("beyond floats", "not in its format"),
        ("no numbers", "not in its format"),
        ("400", "refuses every text"),
        ("302", "answers with status 302"),
        ("401", "answers with status 401"),
        ("404", "does not know the model"),
        ("503", "answers with status 503"),
    ],
)
def test_lying_endpoint_switches_meaning_off(mood: str, problem: str) -> None:
    with serving() as server:
        model = load(address(server))
        server.mood, server.spoils_all = mood, True
        with pytest.raises(MeaningOff, match=problem):
            model.passages(["one"])


def test_stopped_endpoint_switches_meaning_off() -> None:
    with serving() as server:
        model = load(address(server))
        setting = address(server)
    with pytest.raises(MeaningOff, match="does not answer"):
        model.query("one")
    with pytest.raises(MeaningOff, match="does not answer"):
        load(setting)


def test_query_of_a_slow_endpoint_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_QUERY_SECONDS", 0.2)
    with serving() as server:
        model = load(address(server))
        server.mood = "slow"
        with pytest.raises(MeaningOff, match="too slowly"):
            model.query("flood")
        assert isinstance(model.passages(["flood"])[0], bytes)


def test_new_version_of_a_model_has_another_name() -> None:
    with serving() as server:
        first, same = load(address(server)).name, load(address(server)).name
        server.versions = {"models": [{"name": "m:latest", "digest": "two"}]}
        assert first == same != load(address(server)).name


def test_endpoint_sends_what_its_model_expects_before_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        setting = address(server).replace(":m@", ":multilingual-e5-small@")
        model = load(setting)
        server.texts.clear()
        model.query("flood")
        model.passages(["The river rises."])
        assert server.texts == ["query: flood", "passage: The river rises."]
        monkeypatch.setattr(endpoint, "_PREFIXES", ())
        plain = load(setting)
        assert plain.name != model.name, "other prefixes are other vectors"
        server.texts.clear()
        plain.query("flood")
        assert server.texts == ["flood"]


@pytest.mark.parametrize(
    "versions", [{}, [], {"models": 5}, {"models": [5, {"name": []}]}, {"models": [{"name": "m", "digest": "\ud800"}]}]
)
def test_odd_version_is_a_version(versions: Any) -> None:
    with serving() as server:
        server.versions = versions
        assert load(address(server)).dimensions == 4


@pytest.mark.parametrize(
    ("mood", "problem"), [("too wide", "number of dimensions"), ("no versions", "answers with status 500")]
)
def test_endpoint_that_cannot_be_used_switches_meaning_off(mood: str, problem: str) -> None:
    with serving() as server:
        server.mood = mood
        with pytest.raises(MeaningOff, match=problem):
            load(address(server))


@pytest.mark.parametrize("mood", ["drips", "drips headers"])
def test_answer_that_drips_is_not_awaited(monkeypatch: pytest.MonkeyPatch, mood: str) -> None:
    with serving() as server:
        model = load(address(server))
        server.mood = mood
        monkeypatch.setattr(endpoint, "_QUERY_SECONDS", 0.3)
        with pytest.raises(MeaningOff, match="too slowly"):
            model.query("flood")


def test_address_is_checked_when_the_model_is_loaded() -> None:
    for setting in ("ollama:m@http://192.0.2.1:9", "openai:m@https://embeddings.example.org", "on", ""):
        with pytest.raises(MeaningOff, match=r"not on this machine|unknown setting"):
            load(setting)
    with serving() as server:
        for host in ("user@127.0.0.1", "example.org\\@127.0.0.1", "127.0.0.1.example.org"):
            with pytest.raises(MeaningOff, match="not on this machine"):
                load(f"ollama:m@http://{host}:{server.server_port}")
        assert server.texts == []


def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving() as server:
        assert load(address(server)).dimensions == 4


def test_vectors_of_another_version_are_not_returned() -> None:
    with serving() as server:
        model = load(address(server))
        server.on_texts = lambda _: server.versions.update(models=[{"name": "m:latest", "digest": "two"}])
        with pytest.raises(ModelChanged, match="another version of the model"):
            model.passages(["flood"])


def test_texts_that_stall_the_server_take_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_GROUP_SECONDS", 0.3)
    with serving() as server:
        model = load(address(server))
        server.mood = "stalls"
        server.texts.clear()
        assert model.passages([f"poison {n}" for n in range(8)]) == [None] * 8
        assert len([text for text in server.texts if text != "search"]) <= 8 + 4 + 2
