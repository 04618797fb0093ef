"""Whether text on pictures of pages is recognized, in which languages, and how far it is."""

from __future__ import annotations

import locale
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from catchment.model import count
from catchment.records.standing import OFF

if TYPE_CHECKING:
    from catchment.ledger import Ledger

AUTOMATIC = "auto"
_MOST_LANGUAGES = 3
"""Each language of a recognition takes time."""
_MISSING = "Tesseract is not installed; on Debian: sudo apt install tesseract-ocr"


@dataclass(frozen=True, slots=True)
class Recognizer:
    """What recognizes text.

    Attributes:
        name: Its name with its version and languages: equal names give equal texts for equal pictures.
        languages: Tesseract's names, the most frequent first.
        off: Why it cannot, or "".
    """

    name: str
    languages: tuple[str, ...]
    off: str

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """Return the recognizer for a library: in the languages of its documents, then in that of the machine."""
        from catchment.content.pictures import tesseract

        setting, version, installed = ledger.recognition.setting, tesseract.version(), tesseract.installed()
        if setting == OFF:
            return cls("", (), "text recognition is off; switch it on with `catchment recognition auto`")
        if version is None:
            return cls("", (), _MISSING)
        wanted_names = setting.split("+")
        if setting == AUTOMATIC:
            of_machine = (locale.getlocale()[0] or "en").partition("_")[0]
            wanted_names = tesseract.names((*ledger.recognition.languages(), of_machine, "en"))
        languages = tuple(name for name in wanted_names if name in installed)[:_MOST_LANGUAGES]
        if languages:
            return cls(f"{version} {'+'.join(languages)}", languages, "")
        packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in wanted_names or ["eng"])
        return cls("", (), f"Tesseract has no language files; on Debian: sudo apt install {packages}")


@dataclass(frozen=True, slots=True)
class RecognitionStatus:
    """How many pages with pictures are recognized, and in all. `reason`: why the others are not, or ""."""

    setting: str
    done: int
    total: int
    reason: str

    @classmethod
    def read(cls, ledger: Ledger) -> Self:
        """Read it from the ledger. Looks for Tesseract only if pages wait."""
        recognized, pages = ledger.recognition.counts()
        reason = Recognizer.of(ledger).off if recognized < pages else ""
        return cls(ledger.recognition.setting, recognized, pages, reason)

    def __str__(self) -> str:
        waiting = f"text recognition: {self.done:,} of {count(self.total, 'page')}"
        return f"{waiting}; {self.reason}" if self.reason else waiting


def unread(ledger: Ledger, **owner: int | None) -> str:
    """Return that text of a source or document is not recognized yet, and why it cannot be; "" if nothing waits.

    `owner`: the `source_id`, or the `id` of the document.
    """
    pages = ledger.recognition.count_waiting(**owner)
    reason = Recognizer.of(ledger).off if pages else ""
    text = f"text on {count(pages, 'picture')} not recognized yet"
    return "" if not pages else f"{text}: {reason}" if reason else text
