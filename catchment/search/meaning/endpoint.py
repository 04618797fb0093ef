"""A model behind a local server: Ollama (`/api/embed`), or any with OpenAI's interface (`/v1/embeddings`)."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Container, Sequence
from typing import Any

import httpx

from catchment.errors import MeaningOff, ModelChanged
from catchment.pacing.json_server import JsonServer, ServerFailed
from catchment.search.meaning.models import Refusal, clean, quantized

_SECONDS = 60.0
_QUERY_SECONDS = 2.0
"""Someone waits for the results."""
_GROUP_SECONDS = 120.0
"""Time to separate failing texts from others. The run counts as stuck after five minutes without a report."""
_PROBE_SECONDS = 10.0
"""The model is loaded already."""
_MOST_BYTES = 64 * 1024 * 1024
_MOST_DIMENSIONS = 16_384
_REFUSES = frozenset({400, 413, 422})
"""The statuses of a request that is wrong or too large (RFC 9110). All others may pass."""
_REFUSED = "the model's server refused the text"
_PROBE = "search"
_SEARCHED = "Represent this sentence for searching relevant passages: "
_PREFIXES = (
    (r"\be5\b", "query: ", "passage: "),
    (r"nomic-embed", "search_query: ", "search_document: "),
    (r"qwen3-embedding", "Instruct: Find passages that answer the question\nQuery: ", ""),
    (r"mxbai-embed|arctic-embed(?!2)|bge-(small|base|large)-en", _SEARCHED, ""),
    (r"arctic-embed2|snowflake-arctic-embed.*v2", "query: ", ""),
    (r"embeddinggemma", "task: search result | query: ", "title: none | text: "),
)
"""The texts that models expect before a query and before a passage, by name, from their documentation."""


class _RefusedTexts(Exception):
    """The server refuses these texts for good."""


class Endpoint:
    """A model behind a local server. Raises MeaningOff if it does not answer as its interface requires."""

    def __init__(self, setting: str, kind: str, model: str, url: str) -> None:
        self.setting = setting
        self._kind, self._model = kind, model
        self._server = JsonServer(url.rstrip("/"), seconds=_SECONDS, most_bytes=_MOST_BYTES)
        self._query, self._passage = _prefixes(model)
        self.dimensions = 0
        first, self._version = self._probe(_SECONDS), self._digest()
        self.dimensions = len(first)
        digest = hashlib.sha256(f"{url} {self._version}{self._query}{self._passage}".encode("utf-8", "surrogatepass"))
        self.name = f"{kind}:{model}:{digest.hexdigest()[:12]}"

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        """Implement `Model.passages`. Raises ModelChanged if the server has another version of the model now."""
        vectors = self._all([clean(self._passage + text) for text in texts], time.monotonic() + _GROUP_SECONDS)
        if self._digest() != self._version:
            raise ModelChanged(
                "search by meaning: the server has another version of the model; another run embeds with it"
            )
        return vectors

    def _all(self, cleaned: Sequence[str], until: float) -> list[bytes | Refusal | None]:
        """Return the vectors. Halves a group that fails until the failing texts are alone, or the time is over."""
        if time.monotonic() > until:
            return [None] * len(cleaned)
        try:
            return [self._usable(vector) for vector in self._embed(cleaned)] if cleaned else []
        except (_RefusedTexts, MeaningOff) as failure:
            # A server that stopped fails on everything; this raises MeaningOff then.
            self._probe(_PROBE_SECONDS)
            if len(cleaned) == 1:
                return [Refusal(_REFUSED) if isinstance(failure, _RefusedTexts) else None]
            middle = len(cleaned) // 2
            return [*self._all(cleaned[:middle], until), *self._all(cleaned[middle:], until)]

    def query(self, text: str) -> Sequence[float]:
        """Implement `Model.query`."""
        try:
            vector = self._embed([clean(self._query + text)], _QUERY_SECONDS)[0]
        except _RefusedTexts:
            raise self._off("refused the query") from None
        length = math.hypot(*vector)
        if not math.isfinite(length) or length == 0:
            raise self._off("returned no usable vector")
        return [value / length for value in vector]

    def _probe(self, seconds: float) -> list[float]:
        """Return the vector of a harmless text."""
        try:
            return self._embed([_PROBE], seconds)[0]
        except _RefusedTexts:
            raise self._off("refuses every text") from None

    @staticmethod
    def _usable(vector: list[float]) -> bytes | None:
        result = quantized(vector)
        return None if isinstance(result, Refusal) else result

    def _embed(self, texts: Sequence[str], seconds: float = _SECONDS) -> list[list[float]]:
        rows: Any
        if self._kind == "ollama":
            body = {"model": self._model, "input": list(texts), "truncate": True, "keep_alive": "5m"}
            rows = self._answer("POST", "/api/embed", body, seconds).get("embeddings")
        else:
            body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
            data = self._answer("POST", "/v1/embeddings", body, seconds).get("data")
            # Servers may answer in any order.
            rows = [row.get("embedding") for row in sorted(_objects(data), key=_index)]
        try:
            vectors = [[float(number) for number in vector] for vector in rows]
        except (TypeError, ValueError, OverflowError):
            vectors = []
        if len(vectors) != len(texts) or not all(len(vector) in self._widths() for vector in vectors):
            raise self._off("gave an answer that is not in its format, or with another number of dimensions")
        return vectors

    def _widths(self) -> Container[int]:
        return {self.dimensions} if self.dimensions else range(1, _MOST_DIMENSIONS + 1)

    def _answer(
        self, method: str, path: str, body: dict[str, Any] | None = None, seconds: float = _SECONDS
    ) -> dict[str, Any]:
        try:
            status, value = self._server.ask(method, path, body, seconds)
        except ServerFailed as failure:
            raise self._off(str(failure)) from None
        if status in _REFUSES:
            raise _RefusedTexts
        if status == httpx.codes.NOT_FOUND:
            raise self._off("does not know the model, or has another interface")
        if status != httpx.codes.OK:
            raise self._off(f"answers with status {status}")
        return value if isinstance(value, dict) else {}

    def _digest(self) -> str:
        """Return the version of the model, or "" if the server does not report it. A new version needs new vectors."""
        if self._kind != "ollama":
            return ""
        names = (self._model, f"{self._model}:latest")
        models = _objects(self._answer("GET", "/api/tags").get("models"))
        digests = [model.get("digest") for model in models if model.get("name") in names]
        return str(digests[0]) if digests else ""

    def _off(self, problem: str) -> MeaningOff:
        return MeaningOff(
            f"search by meaning: the model's server {problem}; start or repair it, or choose another with `catchment model`"
        )


def _prefixes(model: str) -> tuple[str, str]:
    prefixes = (pair for pattern, *pair in _PREFIXES if re.search(pattern, model.lower()))
    query, passage = next(prefixes, ("", ""))
    return query, passage


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _index(row: dict[str, Any]) -> int:
    index = row.get("index")
    return index if isinstance(index, int) else 0
