"""Recognize pages one after another: get the file, draw the page, read its text. May be killed at any point.

A page that was drawn and read is stored at once, so that a killed run repeats at most one page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from catchment.content.pictures.drawing import page_picture
from catchment.content.pictures.tesseract import text_on
from catchment.errors import ItemError, NotFound
from catchment.ledger import Ledger, WaitingPage
from catchment.model import PageText
from catchment.parser_pool import ParserPool
from catchment.runtime.home import Home
from catchment.runtime.reports.background_child import permission, tell
from catchment.settings import Limits
from catchment.views.resolver import Settings
from catchment.views.served_files import own_file
from catchment.views.work.recognition import Recognizer

_AT_ONCE = 50
_LIMITS = Limits(stall_seconds=120, total_seconds=300)
_PRELOAD = ("catchment.content.pictures.drawing", "catchment.content.pictures.tesseract")


def recognize(home: Home, ledger: Ledger, settings: Settings) -> None:
    """Recognize the text of all waiting pages whose file is on this machine, and tell the progress."""
    recognizer = Recognizer.of(ledger)
    if recognizer.off:
        tell(off=recognizer.off)
        return
    _tell(ledger)
    page: WaitingPage | None = None
    with ParserPool(1, preload=_PRELOAD) as pool:
        while pages := ledger.recognition.waiting(page, _AT_ONCE):
            for page in pages:
                with permission():
                    _tell(ledger, _read(home, ledger, settings, pool, recognizer, page))


def _tell(ledger: Ledger, sources: Sequence[str] = ()) -> None:
    counts = ledger.recognition.counts()
    tell(done=counts.done, total=counts.total, sources=sources)


def _read(
    home: Home, ledger: Ledger, settings: Settings, pool: ParserPool, recognizer: Recognizer, page: WaitingPage
) -> Sequence[str]:
    """Read a page and store its text. Returns the deployments of the sources that have to read an item again."""
    digest = None
    try:
        shown = ledger.library.document(page.document, mentions=0)
        _, data = own_file(home, ledger, settings, shown, _LIMITS.max_bytes)
        picture = pool.call(_LIMITS, page_picture, data, page.media_type, page.page)
        digest = hashlib.sha256(picture).hexdigest()
        text = ledger.recognition.known(digest, recognizer.name) or pool.call(
            _LIMITS, text_on, picture, recognizer.languages
        )
    except NotFound:  # gone, or on another machine
        return ()
    except ItemError as error:
        text = PageText("", 0.0, problem=str(error))
    return ledger.recognition.put(page, digest, recognizer.name, text)
