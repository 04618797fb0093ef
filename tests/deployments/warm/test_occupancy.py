"""What the worker says of its places."""

from __future__ import annotations

from catchment.places import Places
from catchment.settings import Home
from deployments.warm.occupancy import Occupancy


def test_places_that_cannot_be_told_now_are_told_later(home: Home) -> None:
    occupancy = Occupancy(None, lambda _line: None)
    # As a full disk would, this keeps the file from being written.
    in_the_way = home.run / "worker.new"
    in_the_way.mkdir()
    occupancy.adapt()
    assert Places.read(home) is None
    in_the_way.rmdir()
    occupancy.adapt()
    assert Places.read(home) is not None
