"""Models: settings, the built-in one, and servers of embeddings that stop, lie or refuse, on a real socket."""

from __future__ import annotations

import gzip
import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from catchment.errors import BadInput, MeaningOff
from catchment.meaning import builtin, endpoint
from catchment.meaning.models import Model, Refusal, checked, load, quantized


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
    """A server of embeddings. `mood`: how it misbehaves."""

    mood = ""
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
        texts, mood = body["input"], self.server.mood
        self.server.texts += texts
        is_poisoned = any("poison" in text for text in texts)
        if mood == "slow":
            time.sleep(1)
        if mood == "dies" and is_poisoned:
            self.close_connection = True
        elif mood == "everything" or (mood == "refuses" and is_poisoned):
            self._send(500, {"error": "out of memory"})
        elif mood == "not json":
            self._send(200, "hello")
        elif mood == "huge":
            self._send(200, {"embeddings": "x" * 70_000_000})
        elif mood == "deep":
            self._send(200, "[" * 100_000)
        elif mood == "bomb":
            self._send(200, gzip.compress(b" " * 10_000_000 + b"{}"), **{"Content-Encoding": "gzip"})
        elif mood == "elsewhere":
            self._send(302, "", Location="http://127.0.0.1:9/api/embed")
        elif mood == "drips":
            self._drip()
        else:
            self._embed(texts, mood)

    def _embed(self, texts: list[str], mood: str) -> None:
        width = 5 if mood == "wider" else 4
        rows: list[list[float]] = [[float(len(text)), 1.0, 2.0, *[3.0] * (width - 3)] for text in texts]
        if mood == "nan" and len(texts) > 1:
            rows[0][0] = math.nan
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

    def _drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            for _ in range(50):
                self.wfile.write(b" ")
                time.sleep(0.1)

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


@pytest.mark.parametrize("mood", ["refuses", "dies"])
def test_refused_text_is_found_and_the_others_are_embedded(mood: str) -> None:
    with serving() as server:
        model = load(address(server))
        server.mood = mood
        vectors = model.passages(["one", "two", "poison", "four", "five"])
        assert [isinstance(vector, Refusal) for vector in vectors] == [False, False, True, False, False]


def test_vector_with_nan_is_a_refusal() -> None:
    with serving() as server:
        model = load(address(server))
        server.mood = "nan"
        vectors = model.passages(["one", "two"])
        assert isinstance(vectors[0], Refusal) and isinstance(vectors[1], bytes)


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
        ("elsewhere", "refuses every text"),
        ("everything", "refuses every text"),
    ],
)
def test_lying_endpoint_switches_meaning_off(mood: str, problem: str) -> None:
    with serving() as server:
        model = load(address(server))
        server.mood = mood
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
    monkeypatch.setattr(endpoint, "_QUERY_TIMEOUT", httpx.Timeout(0.2))
    with serving() as server:
        model = load(address(server))
        server.mood = "slow"
        with pytest.raises(MeaningOff, match=r"does not answer \(ReadTimeout\)"):
            model.query("flood")
        assert isinstance(model.passages(["flood"])[0], bytes)


def test_new_version_of_a_model_has_another_name() -> None:
    with serving() as server:
        first, same = load(address(server)).name, load(address(server)).name
        server.versions = {"models": [{"name": "m:latest", "digest": "two"}]}
        assert first == same != load(address(server)).name


@pytest.mark.parametrize(
    "versions", [{}, [], {"models": 5}, {"models": [5, {"name": []}]}, {"models": [{"name": "m", "digest": "\ud800"}]}]
)
def test_odd_version_is_a_version(versions: Any) -> None:
    with serving() as server:
        server.versions = versions
        assert load(address(server)).dimensions == 4


@pytest.mark.parametrize(
    ("mood", "problem"), [("too wide", "number of dimensions"), ("no versions", "refuses to embed")]
)
def test_endpoint_that_cannot_be_used_switches_meaning_off(mood: str, problem: str) -> None:
    with serving() as server:
        server.mood = mood
        with pytest.raises(MeaningOff, match=problem):
            load(address(server))


def test_answer_that_drips_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_QUERY_TIMEOUT", httpx.Timeout(0.3))
    with serving() as server:
        model = load(address(server))
        server.mood = "drips"
        began = time.monotonic()
        with pytest.raises(MeaningOff, match="too slowly"):
            model.query("flood")
        assert time.monotonic() - began < 2


def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving() as server:
        assert load(address(server)).dimensions == 4
