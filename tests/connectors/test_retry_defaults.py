"""Default retry policies of each kind of source."""

from __future__ import annotations

import pytest

from catchment.settings import RetryPolicy
from connectors import connector_class
from connectors.github.api.repositories import limits as github_limits
from connectors.github.settings import GitHubSettings
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings

FOLDERS = RetryPolicy(attempts=3, initial=5, maximum=60)
DEFAULTS = {
    "local_files": FOLDERS,
    "obsidian": FOLDERS,
    "imap": RetryPolicy(attempts=5, initial=120, maximum=1_800),
    "github": RetryPolicy(attempts=5, initial=300, maximum=3_600),
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_retry_defaults_of_each_kind(kind: str) -> None:
    assert connector_class(kind).policy.retry == DEFAULTS[kind]
    assert (DEFAULTS[kind].backoff, DEFAULTS[kind].multiplier, DEFAULTS[kind].jitter) == ("exponential", 2, 0.2)


def test_default_wait_of_hosts_is_as_documented() -> None:
    mail = Imap(ImapSettings(host="imap.example.org", user="ada", password="env:MAIL"))
    assert mail.limits().wait == 600
    assert github_limits(GitHubSettings(repositories=("ada/weir",))).wait == 900
