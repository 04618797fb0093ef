"""The tokens of pushing programs. The home's file `push-tokens.json` has their digests; a token is shown once."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from catchment.errors import BadInput, ConfigError, NotFound, did_you_mean
from catchment.runtime import atomic_files, own_secrets
from catchment.runtime.home import CONTROL, Home
from catchment.runtime.reports.record_json import from_json, to_json
from deployments.actions.desk import Desk, known

_LONGEST = 63


@dataclass(frozen=True, slots=True)
class PushToken:
    """The token of a program, by the digest of it. It may push to `source` only."""

    name: str
    source: str
    added: datetime
    digest: str


def tokens(home: Home) -> list[PushToken]:
    """Return all tokens, the oldest first. Raises ConfigError if the file is damaged."""
    try:
        return from_json(list[PushToken], json.loads(home.push_tokens.read_bytes()))
    except FileNotFoundError:
        return []
    except (KeyError, TypeError, ValueError, AttributeError):
        file = home.push_tokens.name
        raise ConfigError(f"{file}: damaged; delete it, and add the tokens of all programs again") from None


def holder(home: Home, secret: str) -> PushToken | None:
    """Return the token that is this secret; None if there is none, or it was revoked."""
    digest = own_secrets.digest(secret)
    return next((token for token in tokens(home) if token.digest == digest), None)


def add_token(desk: Desk, name: str, source: str, actor: str, reason: str = "") -> str:
    """Make the token of a program, which may push to one source. Return it; it cannot be read again.

    Raises BadInput if the name is taken or the source is of another kind, NotFound without the source.
    """
    if not name.strip() or len(name) > _LONGEST or CONTROL.search(name):
        raise BadInput(f"NAME: use 1 to {_LONGEST} characters")
    if desk.entry(source).kind != "pushed":
        raise BadInput(f"{source}: programs push to sources of the kind pushed; see `catchment add pushed --help`")
    secret = secrets.token_urlsafe(32)

    def add(present: list[PushToken]) -> list[PushToken]:
        if any(token.name == name for token in present):
            raise BadInput(f"{name!r}: another token has this name; choose another, or revoke that one first")
        return [*present, PushToken(name, source, datetime.now(UTC), own_secrets.digest(secret))]

    with desk.writing() as ledger:
        known(desk, ledger, source)
        _change(desk.home, add)
        ledger.sources.note(source, "token added", actor, reason, fact=name)
    return secret


def revoke_token(desk: Desk, name: str, actor: str, reason: str = "") -> PushToken:
    """Revoke the token of a program, which is refused from now on. Its documents stay. Raises NotFound."""
    present = {token.name: token for token in tokens(desk.home)}
    if (token := present.get(name)) is None:
        raise NotFound(f"{name!r}: no such token; {did_you_mean(name, present, 'see `catchment tokens list`')}")
    _change(desk.home, lambda tokens: [other for other in tokens if other.name != name])
    with desk.writing() as ledger, suppress(NotFound):
        ledger.sources.note(token.source, "token revoked", actor, reason, fact=name)
    return token


def forget_tokens(home: Home, source: str) -> None:
    """Revoke all tokens of a source that is removed: a later source of this name is another one."""
    _change(home, lambda tokens: [token for token in tokens if token.source != source])


def _change(home: Home, change: Callable[[list[PushToken]], list[PushToken]]) -> None:
    with atomic_files.explained(), atomic_files.alone(home.make().path):
        present = tokens(home)
        if (changed := change(present)) != present:
            atomic_files.write(home.push_tokens, to_json(changed, indent=1).encode())
