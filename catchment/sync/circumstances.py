"""The circumstances of a sync: program, source settings and login.

`catchment.ledger.jobs.auto_retry` defines which of them affect which failures. Secrets are reduced to 16 bits: enough to
detect a change, too few to recover the secret.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from catchment import __version__
from catchment.errors import LoginFailed
from catchment.ledger import Circumstances

if TYPE_CHECKING:
    from catchment.settings import SourceSettings

_REFERENCE = re.compile(r"(env|file|keyring|block):.+")
_PARSERS = (
    "xberg",
    "pypdfium2",
    "pillow",
    "pi_heif",
    "selectolax",
    "chardet",
    "lxml",
    "trafilatura",
    "htmldate",
    "olefile",
    "libarchive-c",
    "tree-sitter",
    "PyYAML",
    "orjson",
)
"""Parsing libraries. A different version may read files that this one cannot."""


def circumstances(settings: SourceSettings) -> Circumstances:
    """Return the circumstances with these settings. Reads the secrets that they refer to."""
    # Imported here so that inspecting the quarantine does not load the parsers.
    from catchment.content.extract import EXTRACTOR
    from catchment.content.normalize import NORMALIZER

    text = settings.model_dump_json(exclude={"priority", "keep_days"})
    return {
        "program": " ".join([__version__, f"{NORMALIZER}.{EXTRACTOR}", *_versions(_PARSERS)]),
        "settings": hashlib.sha256(text.encode()).hexdigest()[:12],
        "login": " ".join(map(_digest, _references(settings))),
    }


def _versions(packages: Iterable[str]) -> Iterable[str]:
    for package in packages:
        try:
            yield version(package)
        except PackageNotFoundError:
            yield "-"


def _references(settings: SourceSettings) -> list[str]:
    values = settings.model_dump(mode="json").values()
    return sorted(value for value in values if isinstance(value, str) and _REFERENCE.fullmatch(value))


def _digest(reference: str) -> str:
    from catchment.runtime.secret_references import resolve

    try:
        secret = resolve(reference)
    except LoginFailed:
        return "none"
    # Slow on purpose (8 ms), to hinder guessing passwords from a copy of the ledger.
    return hashlib.scrypt(secret.encode(), salt=reference.encode(), n=4096, r=8, p=1, dklen=2).hex()
