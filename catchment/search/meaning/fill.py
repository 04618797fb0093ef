"""Make the missing embeddings of a library. May be killed at any point: the next call resumes."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from catchment.errors import MeaningOff, ModelChanged
from catchment.ledger import NO_TEXT, Embedding, EmbeddingCounts, Ledger, Passage, Space
from catchment.model import ASIDE, GUESSED
from catchment.search.meaning.models import Model, Refusal

_CHUNKS_AT_ONCE = 64
_TEXTS_AT_ONCE = 8
_PAUSES = (1, 2, 4, 8, 16, 32)
"""Seconds between attempts with a model that fails."""
_TITLES_AT_ONCE = 64
_PART = 300
"""Characters of a part of a chunk. A vector represents a longer text less precisely."""
_DENSE = re.compile(r"[!-~]{80,}")
"""Minified code, base64 and other data without a meaning that a model could recognize."""
_CUTS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?。！？]\s*"), re.compile(r"\s"))
_LEAST = _PART // 2

Turn = Callable[[], AbstractContextManager[object]]
"""Returns a context to enter for each group of texts, about a tenth of a second, so that others work in between."""


def fill(
    ledger: Ledger,
    model: Model,
    report: Callable[[EmbeddingCounts], None] = lambda _: None,
    turn: Turn = nullcontext,
) -> EmbeddingCounts:
    """Embed all chunks that have no embeddings by this model, in small transactions. Returns the final counts.

    `report` receives the counts after each transaction. At the end, searches use this model, and embeddings of others are
    deleted. If the model fails, the call is repeated after growing pauses, for a minute in all.

    Raises MeaningOff if the model cannot be used or failed on some texts, ModelChanged if another one was chosen meanwhile.
    """
    embeddings = ledger.embeddings
    space = embeddings.space(model.name, model.setting, model.dimensions)
    embeddings.forget_damaged()
    last, failed, nameless, pauses = 0, 0, 0, iter(_PAUSES)
    while True:
        passages = embeddings.missing(space, last, _CHUNKS_AT_ONCE)
        try:
            if not (last and passages):  # At the beginning, and again at the end.
                nameless = embed_titles(ledger, model, space, turn)
            if not passages:
                break
            remaining = embed(ledger, model, space, passages, turn)
        except ModelChanged:
            raise
        except MeaningOff:
            if (pause := next(pauses, None)) is None:
                raise
            time.sleep(pause)
            continue
        failed, last, pauses = failed + remaining, passages[-1].chunk_id, iter(_PAUSES)
        report(embeddings.counts(space))
        if remaining == _CHUNKS_AT_ONCE:
            break
    if not embeddings.complete(space):
        problem = "refused or failed on most passages and is not used"
    elif failed or nameless:
        problem = f"failed on {failed + nameless:,} texts, which are tried again each hour"
    else:
        return embeddings.counts(space)
    raise MeaningOff(
        f"search by meaning: the model {problem}; see its log, or choose another with `catchment model use`"
    )


def embed(ledger: Ledger, model: Model, space: Space, passages: Sequence[Passage], turn: Turn = nullcontext) -> int:
    """Embed these chunks in one transaction. Texts that were embedded before, in other chunks, keep their vectors.

    Returns the number of chunks without embeddings because the model fails on them now.

    Raises MeaningOff if the model fails on all, after storing the finished chunks; ModelChanged if another one was chosen
    meanwhile.
    """
    texts = {passage.chunk_id: list(_texts(passage)) for passage in passages}
    digests = {text: _digest(text) for group in texts.values() for text in group}
    known = ledger.embeddings.known(space, digests.values())
    vectors: dict[str, bytes | Refusal | None] = {
        text: known[digest] for text, digest in digests.items() if digest in known
    }
    owners = {text: chunk for chunk, group in texts.items() for text in group if text not in vectors}
    try:
        new = list(owners)
        for group in (new[start : start + _TEXTS_AT_ONCE] for start in range(0, len(new), _TEXTS_AT_ONCE)):
            with turn():
                # The choice of the model, or a consent, may have changed since the previous group.
                allowed = ledger.embeddings.allowed(space, {owners[text] for text in group})
                sent = [text for text in group if owners[text] in allowed]
                vectors.update(zip(sent, model.passages(sent), strict=True))
    finally:
        complete = [passage for passage in passages if all(vectors.get(text) for text in texts[passage.chunk_id])]
        ledger.embeddings.put(
            space, [row for passage in complete for row in _rows(passage, texts[passage.chunk_id], digests, vectors)]
        )
    return sum(any(text in vectors and vectors[text] is None for text in its) for its in texts.values())


def embed_titles(ledger: Ledger, model: Model, space: Space, turn: Turn = nullcontext) -> int:
    """Embed the names of documents that have no embedding. A name that the model refuses needs none.

    Returns the number of names left over because the model fails on them now. Ends if it fails on a whole group.
    Raises as `embed`.
    """
    last, failed = 0, 0
    while True:
        with turn():
            # Read here, because the choice of the model, or a consent, may have changed meanwhile.
            titles = ledger.embeddings.missing_titles(space, last, _TITLES_AT_ONCE)
            embeddings = model.passages([title.text for title in titles]) if titles else []
        answers = {title: vector for title, vector in zip(titles, embeddings, strict=True) if vector is not None}
        failed += len(titles) - len(answers)
        if not answers:
            return failed
        vectors = {title: None if isinstance(vector, Refusal) else vector for title, vector in answers.items()}
        ledger.embeddings.put_titles(space, vectors)
        last = titles[-1].document_id


def _rows(
    passage: Passage, texts: Sequence[str], digests: dict[str, bytes], vectors: dict[str, bytes | Refusal | None]
) -> Iterator[Embedding]:
    for part, text in enumerate(texts):
        result = vectors[text]
        vector, refusal = (None, result.reason) if isinstance(result, Refusal) else (result, None)
        yield Embedding(passage.content_id, passage.chunk_id, part, digests[text], vector, refusal)
    if not texts:
        yield Embedding(passage.content_id, passage.chunk_id, 0, NO_TEXT, None)


def _texts(passage: Passage) -> Iterator[str]:
    """Yield the parts of a chunk, each below its headings. Quotations, empty texts and encoded data have none."""
    if passage.heading == ASIDE:
        return
    for part in embedded_parts(passage.text):
        yield "\n".join(filter(None, ("" if passage.heading == GUESSED else passage.heading, part)))


def embedded_parts(text: str) -> Iterator[str]:
    """Yield the parts of a text, except parts that are mostly encoded data."""
    return (part for part in parts(text) if 2 * len(_DENSE.sub("", part)) > len(part))


def parts(text: str) -> Iterator[str]:
    """Split a text into parts of about 300 characters: between paragraphs, else lines, sentences or words."""
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
