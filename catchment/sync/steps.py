"""The steps of one claimed batch, each done once, whoever asks first."""

from __future__ import annotations

import threading
from collections.abc import Callable

from catchment.sync.batch import Figures, OpenBatch


class Steps:
    """`OpenBatch`, for several who do not know of one another: a step that is done, or being done, is not done again."""

    def __init__(self, batch: OpenBatch) -> None:
        self.jobs = batch.jobs
        self.fingerprint = batch.fingerprint
        self._batch = batch
        self._doing = threading.Lock()
        self._done: dict[str, Figures] = {}

    @property
    def seconds_each(self) -> float | None:
        """See `OpenBatch.seconds_each`."""
        return self._batch.seconds_each

    def normalize(self) -> Figures:
        """See `OpenBatch.normalize`."""
        return self._once("normalize", self._batch.normalize)

    def extract(self) -> Figures:
        """See `OpenBatch.extract`."""
        return self._once("extract", self._batch.extract)

    def deliver(self) -> Figures:
        """See `OpenBatch.deliver`."""
        return self._once("deliver", self._batch.deliver)

    def _once(self, name: str, step: Callable[[], Figures]) -> Figures:
        """What the step gave, now or before; one that raised is not done."""
        with self._doing:
            if name not in self._done:
                self._done[name] = step()
            return self._done[name]
