"""One server for the tests that only use it; those that start, stop or kill one have their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.person import Person, upright
from tests.connectors.github.server import TOKEN
from tests.connectors.imap.dovecot import PASSWORD


@pytest.fixture(scope="session")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person whose server is up, with secrets in variables; tests share it, so each names its sources differently."""
    variables = {"MAIL_PASSWORD": PASSWORD, "HUB_TOKEN": TOKEN, "HOOK": "a secret that the webhook shares"}
    with upright(Person(tmp_path_factory.mktemp("acceptance") / "home", variables=variables)) as person:
        yield person
