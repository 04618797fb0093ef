"""Make the missing embeddings of a library. May be killed at any point: the next call goes on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence

from catchment.ledger import Embedding, EmbeddingCounts, Ledger, Passage, Space
from catchment.meaning.models import Model, Refusal
from catchment.model import ASIDE

_CHUNKS_AT_ONCE = 64
_PART = 800
"""Characters of a part of a chunk. A vector says less about a longer text."""
_CUTS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?。！？]\s*"), re.compile(r"\s"))
_LEAST = _PART // 2


def fill(
    ledger: Ledger,
    model: Model,
    report: Callable[[EmbeddingCounts], None] = lambda _: None,
) -> EmbeddingCounts:
    """Embed all chunks that have no embeddings by this model, in small transactions. Returns the final counts.

    `report` receives the counts after each transaction. At the end, searches use this model, and embeddings of others are
    deleted. Raises MeaningOff.
    """
    embeddings = ledger.embeddings
    space = embeddings.space(model.name, model.setting, model.dimensions)
    counts, last = embeddings.counts(space), 0
    while passages := embeddings.missing(space, last, _CHUNKS_AT_ONCE):
        embed(ledger, model, space, passages)
        last = passages[-1].chunk_id
        counts = EmbeddingCounts(counts.done + len(passages), counts.total, counts.refused)
        report(counts)
    embeddings.complete(space)
    return embeddings.counts(space)


def embed(ledger: Ledger, model: Model, space: Space, passages: Sequence[Passage]) -> None:
    """Embed these chunks in one transaction. Texts that were embedded before, in other chunks, keep their vectors."""
    texts = {one.chunk_id: list(_texts(one)) for one in passages}
    digests = {text: _digest(text) for group in texts.values() for text in group}
    known = ledger.embeddings.known(space, digests.values())
    new = [text for text, digest in digests.items() if digest not in known]
    made: dict[str, bytes | Refusal] = dict(zip(new, model.passages(new), strict=True))
    made |= {text: known[digest] for text, digest in digests.items() if digest in known}
    ledger.embeddings.put(space, [row for one in passages for row in _rows(one, texts[one.chunk_id], digests, made)])


def _rows(
    passage: Passage, texts: Sequence[str], digests: dict[str, bytes], made: dict[str, bytes | Refusal]
) -> Iterator[Embedding]:
    for part, text in enumerate(texts):
        result = made[text]
        vector, refusal = (None, result.reason) if isinstance(result, Refusal) else (result, None)
        yield Embedding(passage.content_id, passage.chunk_id, part, digests[text], vector, refusal)
    if not texts:
        yield Embedding(passage.content_id, passage.chunk_id, 0, b"", None)


def _texts(passage: Passage) -> Iterator[str]:
    """Yield the parts of a chunk, each below its headings. Quotations and empty texts have none."""
    if passage.heading == ASIDE:
        return
    for part in parts(passage.text):
        yield "\n".join(filter(None, (passage.title, passage.heading, part)))


def parts(text: str) -> Iterator[str]:
    """Split a text into parts of about 800 characters: between paragraphs, else lines, sentences or words."""
    rest = text.strip()
    while len(rest) > _PART + _LEAST:
        stop = _cut(rest)
        if piece := rest[:stop].strip():
            yield piece
        rest = rest[stop:].lstrip()
    if rest:
        yield rest


def _cut(text: str) -> int:
    """Return the last good place for a cut in the first `_PART` characters, in their second half."""
    for pattern in _CUTS:
        ends = [match.end() for match in pattern.finditer(text, _LEAST, _PART)]
        if ends:
            return ends[-1]
    return _PART


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
