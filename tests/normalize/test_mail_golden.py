"""Golden pairs of mail: each message in `golden/mail` has a JSON file with the expected result.

A new case is a pair of files there; no code is needed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.content.normalize.mail.attachments import attachments
from catchment.errors import ItemError, ParseError
from catchment.model import ASIDE, RawContent

_GOLDEN = Path(__file__).parent / "golden" / "mail"
_INPUTS = sorted(_GOLDEN.glob("*.eml"))


def understood(data: bytes) -> dict[str, Any]:
    """Return the result for a message: document, passages and attachments, or the error."""
    try:
        document = normalize(RawContent(data, "message.eml"))
    except ParseError as error:
        return {"refused": str(error)}
    found = {
        "document": document,
        "passages": [
            {"aside": chunk.heading == ASIDE, "starts": document.text[chunk.start : chunk.end].strip()[:40]}
            for chunk in extract(document).chunks
        ],
        "attachments": [
            {name: getattr(file, name) for name in file.__dataclass_fields__ if name != "data"}
            for file in attachments(data)
        ],
    }
    return dict(orjson.loads(orjson.dumps(found)))


@pytest.mark.parametrize("path", _INPUTS, ids=lambda path: path.stem)
def test_message_matches_its_golden_pair(path: Path) -> None:
    assert understood(path.read_bytes()) == orjson.loads(path.with_suffix(".json").read_bytes())


def test_golden_mail_has_more_than_sixty_cases() -> None:
    assert len(_INPUTS) > 60
    assert {path.stem for path in _INPUTS} == {path.stem for path in _GOLDEN.glob("*.json")}


def _odd_messages() -> Iterator[bytes]:
    """Return our messages and those of CPython's test suite if it is installed."""
    yield from (path.read_bytes() for path in _INPUTS)
    library = Path(subprocess.__file__).parent
    for path in sorted((library / "test" / "test_email" / "data").glob("msg_*")):
        yield path.read_bytes()


def test_every_message_is_read_or_rejected_deterministically() -> None:
    for data in _odd_messages():
        first = understood(data)
        assert first == understood(data)
        assert first.get("refused") or first["document"]["media_type"] == "message/rfc822"
        for file in attachments(data) if "refused" not in first else ():
            try:
                normalize(file.raw())
            except ItemError as error:
                assert str(error)


_DIGESTS = """
from tests.normalize.test_mail_golden import digests
print(digests())
"""


def digests() -> list[str]:
    """Return the hashes of the results of all messages."""
    return [hashlib.sha256(repr(understood(path.read_bytes())).encode()).hexdigest() for path in _INPUTS]


def test_messages_do_not_depend_on_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    other = subprocess.run(
        [sys.executable, "-c", _DIGESTS],
        cwd=root,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == str(digests())
