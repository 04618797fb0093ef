"""A repository at its host, asked by git: what its branches are, and what is in them.

The token is in the environment of git, which asks for it when this host wants a login: it is in no command line and in no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from catchment.contracts import Ended, Shell
from catchment.errors import AccessDenied, LoginFailed, RateLimited, SourceError, SourceUnavailable
from catchment.pacing import Pace
from connectors.github.git.git import COMMAND, SAFE, WITH_US, Damaged

_TOKEN = "CATCHMENT_GIT_TOKEN"
_HELPER = f"""!f() {{ test "$1" = get && printf 'username=x-access-token\\npassword=%s\\n' "${_TOKEN}"; }}; f"""
"""What git runs for a login: it says what is in the environment, so that no file and no command line has it."""
_QUERY_SECONDS = 300.0
"""Limit of a query. Git gives up a transfer that is slower than 100 bytes a second for a minute."""
_FETCH_SECONDS = 86_400.0
_SILENT_SECONDS = 300.0
"""Limits of a fetch: as long as it reports progress it may take a day, for a large repository over a slow line."""

_LOGIN = re.compile(
    r"Authentication failed|could not read Username|terminal prompts disabled|error: 40[13]\b|HTTP 40[13]\b"
)
_MISSING = re.compile(r"[Rr]epository .*not found|does not appear to be a git repository|error: 404\b")
_LIMITED = re.compile(r"error: 429\b|HTTP 429\b")
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_NETWORK = re.compile(
    r"Could not resolve|Failed to connect|Connection (?:refused|reset|timed out|was reset)|Operation timed out|Empty reply"
    r"|Couldn't connect|SSL|gnutls|error: 5\d\d\b|HTTP 5\d\d\b|RPC failed|early EOF|unexpected disconnect|hung up"
    r"|Operation too slow|transfer closed|Recv failure|Network is unreachable|unable to access"
    r"|protocol error|bad line length|flush packet"
)


class Asker(Protocol):
    """Whose pace, shell and token are used: as they are in the moment of asking."""

    pace: Pace
    shell: Shell

    def token(self) -> str | None:
        """The access token, if there is one. Raises LoginFailed."""
        ...


class Remote:
    """A repository at its host; `alone` where nothing else is read there, so that a refusal is one of the whole source."""

    def __init__(self, address: str, name: str, asker: Asker, *, alone: bool = True) -> None:
        self._host = address
        self._name = name
        self._address = f"{address}/{name}.git"
        self._asker = asker
        self._alone = alone

    def heads(self, branches: Sequence[str]) -> dict[str, str]:
        """The newest commits: of these branches, or of the default branch, under the name "". What is not there is left out.

        Raises SourceUnavailable, LoginFailed or RateLimited; AccessDenied for one of several that may not be seen.
        """
        names = {f"refs/heads/{branch}": branch for branch in branches} or {"HEAD": ""}
        said = self._asked("ls-remote", self._address, *names)
        rows = (line.partition("\t") for line in said.splitlines())
        return {names[name]: commit for commit, _, name in rows if name in names}

    def fetch(self, directory: Path, places: Mapping[str, str], max_bytes: int) -> None:
        """Bring the newest commit of each branch to its place, without its past and without files above a size.

        Raises as `heads` does, and Damaged when it is the copy that git has trouble with.
        """
        self._asked(
            "fetch",
            *(
                "--progress",
                "--force",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--no-auto-maintenance",
            ),
            *("--depth=1", f"--filter=blob:limit={max_bytes + 1}"),
            self._address,
            *(f"+{f'refs/heads/{branch}' if branch else 'HEAD'}:{place}" for branch, place in places.items()),
            directory=directory,
        )

    def _asked(self, *arguments: str, directory: Path | None = None) -> str:
        environment = self._environment(directory)
        with self._asker.pace.transfer():
            limits = (_QUERY_SECONDS, None) if directory is None else (_FETCH_SECONDS, _SILENT_SECONDS)
            ended = self._asker.shell((*WITH_US, *COMMAND, *arguments), environment, *limits)
            if ended.code == 0:
                return ended.said
            if (refusal := self._refusal(ended)) is not None:
                raise refusal
        # What is left is no fault of the host.
        if _FULL.search(ended.said):
            raise SourceUnavailable("the disk of Catchment's home is full; free some space, and sync again")
        raise Damaged(self._name)

    def _environment(self, directory: Path | None) -> dict[str, str]:
        settings = [
            ("protocol.version", "2"),
            ("http.lowSpeedLimit", "100"),
            ("http.lowSpeedTime", "60"),
            ("credential.helper", ""),
        ]
        environment = {**SAFE, "GIT_ALLOW_PROTOCOL": urlsplit(self._host).scheme}
        if directory is not None:
            environment["GIT_DIR"] = str(directory)
        if token := self._asker.token():
            # Asked for by git when this host refuses, and by no other host, though a redirect may lead there.
            settings.append((f"credential.{self._host}.helper", _HELPER))
            environment[_TOKEN] = token
        environment["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (key, value) in enumerate(settings):
            environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return environment

    def _refusal(self, ended: Ended) -> SourceError | AccessDenied | None:
        """What the host means; None where it did not refuse."""
        host, said = urlsplit(self._host).netloc, ended.said
        if ended.code is None:
            return SourceUnavailable(
                f"{self._name}: git made no progress within its time limit; the next sync tries again"
            )
        if _LIMITED.search(said):
            return RateLimited(host)
        if not self._alone and (_LOGIN.search(said) or _MISSING.search(said)):
            return AccessDenied(f"{host} shows no {self._name}; give a token that may read it, or leave it out")
        if _LOGIN.search(said):
            remedy = "give a token that may read it: --secret token=env:VARIABLE"
            return LoginFailed(f"{self._name} is private, or there is no such repository; {remedy}")
        if _MISSING.search(said):
            return SourceUnavailable(f"there is no repository {self._name} at its host; correct its name, or remove it")
        if _NETWORK.search(said) and not _FULL.search(said):
            return SourceUnavailable(f"{host} cannot be read; check the connection, or wait")
        return None
