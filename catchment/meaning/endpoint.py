"""A model behind a local server: Ollama (`/api/embed`), or any with OpenAI's interface (`/v1/embeddings`)."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Container, Sequence
from typing import Any

import httpx

from catchment.errors import MeaningOff
from catchment.meaning.models import Refusal, clean, quantized

_TIMEOUT = httpx.Timeout(60, connect=2)
_QUERY_TIMEOUT = httpx.Timeout(2, connect=1)
"""Someone waits for the results."""
_MOST_BYTES = 64 * 1024 * 1024
_MOST_DIMENSIONS = 16_384
_REFUSED = "the model's server refused the text"
_PROBE = "search"


class _RefusedTexts(Exception):
    """The server is there, and refuses these texts."""


class Endpoint:
    """A model behind a local server. Raises MeaningOff if it does not answer as its interface requires."""

    def __init__(self, setting: str, kind: str, model: str, url: str) -> None:
        self.setting = setting
        self._kind, self._model, self._url = kind, model, url.rstrip("/")
        # Proxy settings of the environment would send the texts elsewhere.
        plain = {"Accept-Encoding": "identity"}
        self._client = httpx.Client(timeout=_TIMEOUT, trust_env=False, follow_redirects=False, headers=plain)
        self.dimensions = 0
        try:
            first, version = self._embed([_PROBE])[0], self._digest()
        except _RefusedTexts:
            raise self._off("refuses to embed; check the name of the model") from None
        self.dimensions = len(first)
        digest = hashlib.sha256(f"{url} {version}".encode("utf-8", "surrogatepass"))
        self.name = f"{kind}:{model}:{digest.hexdigest()[:12]}"

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal]:
        """Implement `Model.passages`. Halves a refused group until the refused texts are alone."""
        cleaned = [clean(text) for text in texts]
        try:
            return [quantized(vector) for vector in self._embed(cleaned)] if cleaned else []
        except _RefusedTexts:
            if len(cleaned) == 1:
                # A server that stopped refuses everything; this raises MeaningOff then.
                self._answers()
                return [Refusal(_REFUSED)]
            middle = len(cleaned) // 2
            return [*self.passages(cleaned[:middle]), *self.passages(cleaned[middle:])]

    def query(self, text: str) -> Sequence[float]:
        """Implement `Model.query`."""
        try:
            vector = self._embed([clean(text)], _QUERY_TIMEOUT)[0]
        except _RefusedTexts:
            raise self._off("refused the query") from None
        length = math.hypot(*vector)
        if not math.isfinite(length) or length == 0:
            raise self._off("returned no usable vector")
        return [value / length for value in vector]

    def _answers(self) -> None:
        try:
            self._embed([_PROBE])
        except _RefusedTexts:
            raise self._off("refuses every text") from None

    def _embed(self, texts: Sequence[str], timeout: httpx.Timeout = _TIMEOUT) -> list[list[float]]:
        found: Any
        if self._kind == "ollama":
            body = {"model": self._model, "input": list(texts), "truncate": True, "keep_alive": "5m"}
            found = self._answer("POST", "/api/embed", body, timeout).get("embeddings")
        else:
            body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
            data = self._answer("POST", "/v1/embeddings", body, timeout).get("data")
            # Servers may answer in any order.
            found = [row.get("embedding") for row in sorted(_objects(data), key=_index)]
        try:
            vectors = [[float(number) for number in vector] for vector in found]
        except (TypeError, ValueError, OverflowError):
            vectors = []
        if len(vectors) != len(texts) or not all(len(vector) in self._widths() for vector in vectors):
            raise self._off("gave an answer that is not in its format, or with another number of dimensions")
        return vectors

    def _widths(self) -> Container[int]:
        return {self.dimensions} if self.dimensions else range(1, _MOST_DIMENSIONS + 1)

    def _answer(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout: httpx.Timeout = _TIMEOUT
    ) -> dict[str, Any]:
        ends = time.monotonic() + (timeout.read or 0)
        try:
            with self._client.stream(method, self._url + path, json=body, timeout=timeout) as response:
                content = bytearray()
                # Not decompressed: a few bytes may become gigabytes.
                for part in response.iter_raw():
                    content += part
                    if len(content) > _MOST_BYTES:
                        raise self._off("gave an answer that is too large")
                    if time.monotonic() > ends:
                        raise self._off("answers too slowly")
            if response.status_code == httpx.codes.NOT_FOUND:
                raise self._off("does not know the model, or has another interface")
            if response.status_code != httpx.codes.OK:
                raise _RefusedTexts
            answer = json.loads(content)
        except httpx.RemoteProtocolError:
            # A server that a text kills closes the connection.
            raise _RefusedTexts from None
        except httpx.HTTPError as error:
            raise self._off(f"does not answer ({type(error).__name__})") from None
        except (ValueError, RecursionError):
            raise self._off("gave an answer that is not JSON") from None
        return answer if isinstance(answer, dict) else {}

    def _digest(self) -> str:
        """Return the version of the model, where the server tells it: a new version needs new vectors."""
        if self._kind != "ollama":
            return ""
        names = (self._model, f"{self._model}:latest")
        models = _objects(self._answer("GET", "/api/tags").get("models"))
        digests = [model.get("digest") for model in models if model.get("name") in names]
        return str(digests[0]) if digests else ""

    def _off(self, problem: str) -> MeaningOff:
        return MeaningOff(f"search by meaning: the model's server {problem}; check `catchment model`")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _index(row: dict[str, Any]) -> int:
    index = row.get("index")
    return index if isinstance(index, int) else 0
