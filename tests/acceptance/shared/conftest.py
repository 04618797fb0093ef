"""One server for the tests that only use it. Tests that start, stop or kill a server have their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.person import Person, upright
from tests.connectors.github.server import TOKEN
from tests.connectors.imap.dovecot import PASSWORD


@pytest.fixture(scope="package")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A user with a running server and secrets in environment variables. Tests share it and use distinct source names."""
    variables = {"MAIL_PASSWORD": PASSWORD, "HUB_TOKEN": TOKEN, "HOOK": "a secret that the webhook shares"}
    with upright(Person(tmp_path_factory.mktemp("acceptance") / "home", variables=variables)) as person:
        yield person
