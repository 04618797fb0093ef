"""`python -P -m deployments.ocr`: recognize the pages that wait, one after another. May be killed at any point.

For each: get the file, draw the page, read its text. The text is stored at once, so that a killed run repeats at most one page.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from contextlib import suppress

from catchment.content.pictures.drawing import page_picture
from catchment.content.pictures.tesseract import text_on
from catchment.errors import ItemError, NotFound
from catchment.ledger import Ledger, WaitingPage
from catchment.model import PageText
from catchment.parser_pool import ParserPool
from catchment.runtime.home import Home
from catchment.search.background_child import permission, run, tell
from catchment.settings import Limits, SourceSettings
from catchment.views.served_files import own_file
from catchment.views.work.recognition import Recognizer
from deployments.sources.sources_file import SourcesFile

_AT_ONCE = 50
_LIMITS = Limits(stall_seconds=120, total_seconds=300)
_NOT_HERE = (
    "the file is not kept on this machine; set `keep_raw` of its source to true, then `catchment sync NAME --deep`"
)
_PRELOAD = ("catchment.content.pictures.drawing", "catchment.content.pictures.tesseract")


def main() -> int:
    """Recognize the text of all waiting pages whose file is on this machine. Returns 1 after an error."""
    return run("recognize", recognize)


def recognize(ledger: Ledger) -> None:
    """Recognize the text of all waiting pages, and tell the progress."""
    recognizer, setting = Recognizer.of(ledger), ledger.recognition.setting
    if recognizer.off:
        tell(off=recognizer.off)
        return
    _tell(ledger)
    page: WaitingPage | None = None
    with ParserPool(1, preload=_PRELOAD) as pool:
        while pages := ledger.recognition.waiting(page, _AT_ONCE):
            for page in pages:
                with permission():
                    if ledger.recognition.setting != setting:
                        tell(stopped="the setting was changed")
                        return
                    _read(ledger, pool, recognizer, page)
                    _tell(ledger)


def _tell(ledger: Ledger) -> None:
    recognized, pages = ledger.recognition.counts()
    tell(done=recognized, total=pages)


def _read(ledger: Ledger, pool: ParserPool, recognizer: Recognizer, page: WaitingPage) -> None:
    """Read a page and store its text. Raises ItemError if Tesseract or its languages were changed meanwhile."""
    digest = None
    try:
        data = _file_of(ledger, page)
        if hashlib.sha256(data).hexdigest() != page.content_hash:  # changed: the next sync notes it
            return
        picture = pool.call(_LIMITS, page_picture, data, page.media_type, page.page)
        digest = hashlib.sha256(picture).hexdigest()
        text = ledger.recognition.known(digest, recognizer.name)
        text = text or pool.call(_LIMITS, text_on, picture, recognizer.languages)
    except NotFound:
        ledger.recognition.hold(page, _NOT_HERE)
        return
    except ItemError as error:
        if Recognizer.of(ledger) != recognizer:
            raise
        text = PageText("", 0.0, problem=str(error))
    ledger.recognition.put(page, digest, recognizer.name, text)


def _file_of(ledger: Ledger, page: WaitingPage) -> bytes:
    """Return the file of a page, from any document that has it. Raises NotFound if none is on this machine."""
    for copy in ledger.library.document(page.document, mentions=0).copies:
        with suppress(NotFound):
            shown = ledger.library.document(copy.document, mentions=0)
            return own_file(Home.default(), ledger, _settings, shown, _LIMITS.max_bytes)[1]
    raise NotFound(_NOT_HERE)


def _settings() -> Mapping[str, SourceSettings]:
    return {entry.name: entry.settings for entry in SourcesFile.load(Home.default().sources_file).entries}


if __name__ == "__main__":
    sys.exit(main())
