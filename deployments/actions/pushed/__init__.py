"""Let programs push documents: a token for each program, shown once. The home has a file for each, named by its digest."""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from catchment.errors import BadInput, ConfigError, NotFound, did_you_mean
from catchment.runtime import atomic_files, own_secrets
from catchment.runtime.home import Home
from catchment.runtime.reports.record_json import from_json, to_json
from deployments.actions.desk import Desk, known


@dataclass(frozen=True, slots=True)
class PushToken:
    """The token of a program, which may push to `source` only."""

    name: str
    source: str
    added: datetime
    digest: str


def tokens(home: Home) -> list[PushToken]:
    """Return all tokens, the oldest first. Raises ConfigError if a file is damaged."""
    digests = [file.name for file in home.push_tokens.glob("[!.]*")]
    return sorted(filter(None, (_read(home, digest) for digest in digests)), key=lambda token: token.added)


def holder(home: Home, secret: str) -> PushToken | None:
    """Return the token that is this secret; None if there is none, or it was revoked. Raises ConfigError."""
    return _read(home, own_secrets.digest(secret))


def add_token(desk: Desk, name: str, source: str, actor: str, reason: str = "") -> str:
    """Make the token of a program, which may push to one source. Return it; it cannot be read again.

    Raises BadInput if the name is taken or the source is of another kind, NotFound without the source.
    """
    if not re.fullmatch(r"\S(?:[^\x00-\x1f\x7f-\x9f]{0,61}\S)?", name):
        raise BadInput("NAME: use 1 to 63 characters")
    if desk.entry(source).kind != "pushed":
        raise BadInput(f"{source}: programs push to sources of the kind pushed; see `catchment add pushed --help`")
    secret = secrets.token_urlsafe(32)
    token = PushToken(name, source, datetime.now(UTC), own_secrets.digest(secret))
    with desk.writing() as ledger, atomic_files.explained():
        known(desk, ledger, source)
        if any(other.name == name for other in tokens(desk.home)):
            raise BadInput(f"{name!r}: another token has this name; choose another, or revoke that one first")
        desk.home.push_tokens.mkdir(mode=0o700, exist_ok=True)
        atomic_files.write(desk.home.push_tokens / token.digest, to_json(token).encode())
        ledger.sources.note(source, "token added", actor, reason, fact=name)
    return secret


def revoke_token(desk: Desk, name: str, actor: str, reason: str = "") -> PushToken:
    """Revoke the token of a program, which is refused from now on. Its documents stay. Raises NotFound."""
    present = {token.name: token for token in tokens(desk.home)}
    if (token := present.get(name)) is None:
        raise NotFound(f"{name!r}: no such token; {did_you_mean(name, present, 'see `catchment tokens list`')}")
    _delete(desk.home, [token])
    with desk.writing() as ledger, suppress(NotFound):
        ledger.sources.note(token.source, "token revoked", actor, reason, fact=name)
    return token


def forget_tokens(home: Home, source: str) -> None:
    """Revoke all tokens of a source that is removed: a later source of this name is another one."""
    _delete(home, [token for token in tokens(home) if token.source == source])


def _delete(home: Home, revoked: list[PushToken]) -> None:
    for token in revoked:
        (home.push_tokens / token.digest).unlink(missing_ok=True)
        # A power cut must not bring it back.
        atomic_files.flush(home.push_tokens)


def _read(home: Home, digest: str) -> PushToken | None:
    file = home.push_tokens / digest
    try:
        return from_json(PushToken, json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"{file.parent.name}: {file.name} is damaged; delete it, and add its token again") from None
