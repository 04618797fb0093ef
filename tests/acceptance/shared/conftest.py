"""One server for the tests that only use it; those that start, stop or kill one have their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.person import Person, upright


@pytest.fixture(scope="session")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person whose server is up; tests share it, so each names its sources differently."""
    with upright(Person(tmp_path_factory.mktemp("acceptance") / "home")) as person:
        yield person
