"""Under which circumstances a sync works: the program, the source's settings, its login.

`catchment.ledger.jobs.circumstances` says which of them matter to a failure. Of each only a
fingerprint is kept. That of a secret has 16 bits: enough to see that it is another one, and too few to find out which.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from catchment import __version__
from catchment.errors import LoginFailed
from catchment.ledger.jobs.circumstances import Circumstances

if TYPE_CHECKING:
    from catchment.settings import SourceSettings

_REFERENCE = re.compile(r"(env|file|keyring|block):.+")
_PARSERS = ("xberg", "selectolax", "chardet")
"""Libraries that read what people keep; another version may read what this one cannot."""


def circumstances(settings: SourceSettings) -> Circumstances:
    """Those of a sync with these settings, here and now. Reads the secrets that the settings refer to."""
    # Only a sync asks for them; whoever looks into the quarantine need not load the parsers.
    from catchment.content.extract import EXTRACTOR
    from catchment.content.normalize import NORMALIZER

    said = settings.model_dump_json(exclude={"priority"})
    return {
        "program": " ".join([__version__, f"{NORMALIZER}.{EXTRACTOR}", *_versions(_PARSERS)]),
        "settings": hashlib.sha256(said.encode()).hexdigest()[:12],
        "login": " ".join(map(_fingerprint, _references(settings))),
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


def _fingerprint(reference: str) -> str:
    from catchment.runtime.secret_references import resolve

    try:
        secret = resolve(reference)
    except LoginFailed:
        return "none"
    # Slow on purpose (8 ms): whoever has the ledger could otherwise try many likely passwords.
    return hashlib.scrypt(secret.encode(), salt=reference.encode(), n=4096, r=8, p=1, dklen=2).hex()
