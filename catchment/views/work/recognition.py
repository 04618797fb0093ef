"""Whether text on pictures of pages is recognized, in which languages, and how far it is."""

from __future__ import annotations

import locale
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from catchment.model import count, tesseract_package
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

        setting = ledger.recognition.setting
        if setting == OFF:
            return cls("", (), "text recognition is off; switch it on with `catchment recognition auto`")
        if (version := tesseract.version()) is None:
            return cls("", (), _MISSING)
        installed = tesseract.installed()
        wanted_names = setting.split("+")
        if setting == AUTOMATIC:
            of_machine = (locale.getlocale()[0] or "en").partition("_")[0]
            wanted_names = tesseract.names((*ledger.recognition.languages(), of_machine, "en"))
        languages = tuple(name for name in wanted_names if name in installed)[:_MOST_LANGUAGES]
        if languages:
            return cls(f"{version} {'+'.join(languages)}", languages, "")
        packages = " ".join(map(tesseract_package, wanted_names or ["eng"]))
        return cls("", (), f"Tesseract has no language files; on Debian: sudo apt install {packages}")


@dataclass(frozen=True, slots=True)
class RecognitionStatus:
    """How many pages with pictures are recognized, and in all.

    `languages`: Tesseract's names of those in which the others will be. `reason`: why they cannot be, or "".
    """

    setting: str
    done: int
    total: int
    languages: tuple[str, ...]
    reason: str

    @classmethod
    def read(cls, ledger: Ledger) -> Self:
        """Read it from the ledger. Looks for Tesseract only if pages wait."""
        recognized, pages = ledger.recognition.counts()
        languages, reason = tuple[str, ...](), ""
        if recognized < pages:
            recognizer = Recognizer.of(ledger)
            languages, reason = recognizer.languages, recognizer.off or ledger.recognition.waits_for()[1]
        return cls(ledger.recognition.setting, recognized, pages, languages, reason)

    def __str__(self) -> str:
        waiting = f"text recognition: {self.done:,} of {count(self.total, 'page')}"
        waiting += f", in {'+'.join(self.languages)}" if self.languages else ""
        return f"{waiting}; {self.reason}" if self.reason else waiting


def unread(ledger: Ledger, **owner: int | None) -> str:
    """Return that text of a source or document is not recognized yet, and why it cannot be; "" if nothing waits.

    `owner`: the `source_id`, or the `id` of the document.
    """
    pages, problem = ledger.recognition.waits_for(**owner)
    reason = pages and (Recognizer.of(ledger).off or problem)
    text = f"text on {count(pages, 'picture')} not recognized yet"
    return "" if not pages else f"{text}: {reason}" if reason else text
