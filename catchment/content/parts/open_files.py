"""The container of which a parser process reads one part after another: opening a large one takes a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from typing import IO

from catchment.content.parts.listing import OpenContainer, container_in, read_part
from catchment.model import RawContent
from catchment.parser_pool import keeping

_IDLE_SECONDS = 2.0
"""After that it is closed, so that its disk can be unmounted."""


class _LastContainer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: Hashable = None
        self._container: OpenContainer | None = None
        self._closing: threading.Timer | None = None

    def read(self, key: Hashable, raw: RawContent, file: IO[bytes], path: str, most_bytes: int) -> RawContent:
        """Return a part of a file, which stays open for the next one. `key`: equal for equal files. Raises ItemError."""
        with self._lock:
            if self._closing is not None:
                self._closing.cancel()
            opening: AbstractContextManager[None] = nullcontext()
            if self._container is None or key != self._key:
                self._close()
                content, kind = container_in(raw, file)
                own = content if isinstance(content, BytesIO) else os.fdopen(os.dup(content.fileno()), "rb")
                self._key, self._container = key, OpenContainer(own, kind)
                opening = keeping()
            try:
                with opening:
                    return read_part(self._container, path, most_bytes)
            finally:
                self._closing = threading.Timer(_IDLE_SECONDS, self._close_idle, [self._container])
                self._closing.daemon = True
                self._closing.start()

    def _close_idle(self, container: OpenContainer) -> None:
        with self._lock:
            if self._container is container:
                self._close()

    def _close(self) -> None:
        if self._container is not None:
            self._container.close()
        self._container = None


LAST = _LastContainer()
"""That of this process."""
