"""Sync mail into a real ledger with real parsers, without a Prefect server."""

from __future__ import annotations

from catchment.ledger import Ledger
from catchment.settings import Home, Policy, RetryPolicy
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.imap import Imap

NOW = RetryPolicy(backoff="immediate", attempts=3)


def work(sync: SourceSync, batch: int = 250) -> None:
    """Process all pending jobs."""
    while (token := sync.claim(batch)) is not None:
        sync.process(token)


def full_sync(home: Home, mail: Imap, *, deep: bool = False) -> dict[str, int]:
    """Run one complete sync; return its summary."""
    consent(home, mail)
    policy = Policy(retry=NOW, limits=mail.policy.limits)
    with open_sync(home, mail, "mail", policy, mail.settings.model_fields["priority"].default) as sync:
        sync.discover(deep=deep)
        work(sync)
        for job in list(sync.troubles):
            while (trouble := sync.process_alone(job)) and trouble.retry_at is not None:
                pass
        return sync.finish("completed")


def consent(home: Home, mail: Imap) -> None:
    """Give consent to everything the account reads; may be called again."""
    ledger = Ledger.open(home.make().database_url)
    try:
        source = ledger.sources.put("mail", mail.kind, mail.settings.model_fields["priority"].default)
        if not ledger.consents.valid(source.id) >= mail.scopes().keys():
            ledger.consents.give(source.id, set(mail.scopes()), "operator", None)
    finally:
        ledger.close()


def documents(home: Home) -> dict[str, int]:
    """Return the document number of each item."""
    ledger = Ledger.open(home.database_url)
    try:
        return {named.locator: named.document for named in ledger.library.names(ledger.sources.get("mail").id)}
    finally:
        ledger.close()


def held(home: Home) -> list[tuple[int, str]]:
    """Return the held deletions: their number and reason."""
    ledger = Ledger.open(home.database_url)
    try:
        assert ledger.check(deep=True) == []
        return [(hold.count, hold.reason) for hold in ledger.intake.holds()]
    finally:
        ledger.close()
