"""A model behind a local server: Ollama (`/api/embed`), or any with OpenAI's interface (`/v1/embeddings`)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import httpx

from catchment.errors import MeaningOff
from catchment.meaning.models import Refusal, clean, quantized

_TIMEOUT = httpx.Timeout(60, connect=2)
_QUERY_TIMEOUT = httpx.Timeout(2, connect=1)
"""Someone waits for the results."""
_MOST_BYTES = 64 * 1024 * 1024
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
        self._client = httpx.Client(timeout=_TIMEOUT, trust_env=False, follow_redirects=False)
        self.dimensions = 0
        try:
            first = self._embed([_PROBE])[0]
        except _RefusedTexts:
            raise self._off("refuses to embed; check the name of the model") from None
        self.dimensions = len(first)
        version = self._digest()
        self.name = f"{kind}:{model}:{hashlib.sha256(f'{url} {version}'.encode()).hexdigest()[:12]}"

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
        if self._kind == "ollama":
            body = {"model": self._model, "input": list(texts), "truncate": True, "keep_alive": "5m"}
            found = self._answer("POST", "/api/embed", body, timeout).get("embeddings")
        else:
            body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
            data = self._answer("POST", "/v1/embeddings", body, timeout).get("data")
            # Servers may answer in any order.
            rows = sorted((row for row in data if isinstance(row, dict)), key=_index) if isinstance(data, list) else []
            found = [row.get("embedding") for row in rows]
        if not isinstance(found, list) or len(found) != len(texts) or not all(map(self._is_vector, found)):
            raise self._off("gave an answer that is not in its format, or with another number of dimensions")
        return found

    def _is_vector(self, value: Any) -> bool:
        is_vector = isinstance(value, list) and value and all(isinstance(number, int | float) for number in value)
        return bool(is_vector) and len(value) == (self.dimensions or len(value))

    def _answer(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout: httpx.Timeout = _TIMEOUT
    ) -> dict[str, Any]:
        try:
            with self._client.stream(method, self._url + path, json=body, timeout=timeout) as response:
                content = bytearray()
                for part in response.iter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES:
                        raise self._off("gave an answer that is too large")
            if response.status_code == httpx.codes.NOT_FOUND:
                raise self._off("does not know the model, or has another interface")
            if response.status_code != httpx.codes.OK:
                raise _RefusedTexts
            answer = httpx.Response(200, content=bytes(content)).json()
        except httpx.RemoteProtocolError:
            # A server that a text kills closes the connection.
            raise _RefusedTexts from None
        except httpx.HTTPError as error:
            raise self._off(f"does not answer ({type(error).__name__})") from None
        except ValueError:
            raise self._off("gave an answer that is not JSON") from None
        return answer if isinstance(answer, dict) else {}

    def _digest(self) -> str:
        """Return the version of the model, where the server tells it: a new version needs new vectors."""
        if self._kind != "ollama":
            return ""
        models = self._answer("GET", "/api/tags").get("models")
        named = {self._model, f"{self._model}:latest"}
        digests = [m.get("digest") for m in models or () if isinstance(m, dict) and m.get("name") in named]
        return str(digests[0]) if digests else ""

    def _off(self, problem: str) -> MeaningOff:
        return MeaningOff(f"search by meaning: the model's server {problem}; check `catchment model`")


def _index(row: dict[str, Any]) -> int:
    index = row.get("index")
    return index if isinstance(index, int) else 0
