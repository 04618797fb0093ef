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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let those who share a server be done by one process, so that there is only one; and each other file by one, as ever."""
    sharing = {
        item.path
        for item in items
        if isinstance(item, pytest.Function) and "person" in item.fixturenames and not hasattr(item.module, "person")
    }
    for item in items:
        item.add_marker(pytest.mark.xdist_group(str(item.path.parent if item.path in sharing else item.path)))
