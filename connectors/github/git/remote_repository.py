"""A repository at its host, accessed with git: its branches and their content.

The token is passed in git's environment, and only to this host. It is never in a command line or a file.
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
from connectors.child_end import KILLED_WITH_PARENT
from connectors.github.git.git import COMMAND, ENVIRONMENT
from connectors.github.git.objects import Damaged

_TOKEN = "CATCHMENT_GIT_TOKEN"
_HELPER = f"""!f() {{ test "$1" = get && printf 'username=x-access-token\\npassword=%s\\n' "${_TOKEN}"; }}; f"""
"""The credential helper. It prints the token from the environment, so that no file or command line contains it."""
_QUERY_SECONDS = 300.0
"""Time limit of a query. Git aborts transfers slower than 100 bytes per second for a minute."""
_FETCH_SECONDS = 86_400.0
_SILENT_SECONDS = 300.0
"""Limits of a fetch: a large repository over a slow line may take a day as long as progress is reported."""

_MOST_COMMITS = 500
"""Commits of a history to fetch: about 100 kB."""

_LOGIN = re.compile(
    r"Authentication failed|could not read Username|terminal prompts disabled|error: 40[13]\b|HTTP 40[13]\b"
)
_MISSING = re.compile(r"[Rr]epository .*not found|does not appear to be a git repository|error: 404\b")
_LIMITED = re.compile(r"error: 429\b|HTTP 429\b")
_NO_COMMIT = re.compile(r"not our ref")
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_NETWORK = re.compile(
    r"Could not resolve|Failed to connect|Connection (?:refused|reset|timed out|was reset)|Operation timed out|Empty reply"
    r"|Couldn't connect|SSL|gnutls|error: 5\d\d\b|HTTP 5\d\d\b|RPC failed|early EOF|unexpected disconnect|hung up"
    r"|Operation too slow|transfer closed|Recv failure|Network is unreachable|unable to access"
    r"|protocol error|bad line length|flush packet"
)


class RemoteAccess(Protocol):
    """Provides the current pace, shell and token."""

    pace: Pace
    shell: Shell

    def token(self) -> str | None:
        """Return the access token, if there is one. Raises LoginFailed."""
        ...


class Remote:
    """A repository at its host.

    `alone`: it is the only one of its source, so that a refusal concerns the whole source.
    """

    def __init__(self, address: str, name: str, access: RemoteAccess, *, alone: bool = True) -> None:
        self._host = address
        self._name = name
        self._address = f"{address}/{name}.git"
        self._access = access
        self._alone = alone

    def heads(self, branches: Sequence[str]) -> dict[str, str]:
        """Return the latest commits of these branches, or of the default branch under the name "". Missing branches are
        omitted.

        Raises SourceUnavailable, LoginFailed or RateLimited; AccessDenied for one of several repositories.
        """
        names = {f"refs/heads/{branch}": branch for branch in branches} or {"HEAD": ""}
        output = self._run("ls-remote", self._address, *names)
        rows = (line.partition("\t") for line in output.splitlines())
        return {names[name]: commit for commit, _, name in rows if name in names}

    def fetch(self, directory: Path, refs: Mapping[str, str], max_bytes: int) -> None:
        """Fetch the latest commit of each branch to its ref, without history and files above the size limit.

        Raises as `heads` does, and Damaged if git fails because of the copy.
        """
        names = (f"+{f'refs/heads/{branch}' if branch else 'HEAD'}:{ref}" for branch, ref in refs.items())
        self._fetch(directory, 1, f"blob:limit={max_bytes + 1}", *names)

    def fetch_commits(self, directory: Path, commits: Sequence[str]) -> None:
        """Fetch these commits and some that precede them, without files. Raises as `fetch` does."""
        self._fetch(directory, _MOST_COMMITS, "tree:0", *commits)

    def _fetch(self, directory: Path, depth: int, filter_: str, *names: str) -> None:
        self._run(
            "fetch",
            *(
                "--progress",
                "--force",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--no-auto-maintenance",
            ),
            *(f"--depth={depth}", f"--filter={filter_}"),
            self._address,
            *names,
            directory=directory,
        )

    def _run(self, *arguments: str, directory: Path | None = None) -> str:
        environment = self._environment(directory)
        with self._access.pace.transfer():
            limits = (_QUERY_SECONDS, None) if directory is None else (_FETCH_SECONDS, _SILENT_SECONDS)
            result = self._access.shell((*KILLED_WITH_PARENT, *COMMAND, *arguments), environment, *limits)
            if result.code == 0:
                return result.output
            if (refusal := self._refusal(result)) is not None:
                raise refusal
        # Other failures are not the host's fault.
        if _FULL.search(result.output):
            raise SourceUnavailable("CATCHMENT_HOME: disk full; free some space and sync again")
        raise Damaged(self._name)

    def _environment(self, directory: Path | None) -> dict[str, str]:
        settings = [
            ("protocol.version", "2"),
            ("http.lowSpeedLimit", "100"),
            ("http.lowSpeedTime", "60"),
            ("credential.helper", ""),
        ]
        environment = {**ENVIRONMENT, "GIT_ALLOW_PROTOCOL": urlsplit(self._host).scheme}
        if directory is not None:
            environment["GIT_DIR"] = str(directory)
        if token := self._access.token():
            # Git requests it only when this host refuses access, and never for another host after a redirect.
            settings.append((f"credential.{self._host}.helper", _HELPER))
            environment[_TOKEN] = token
        environment["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (key, value) in enumerate(settings):
            environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return environment

    def _refusal(self, result: Ended) -> SourceError | AccessDenied | None:
        """Return the error that the output stands for; None if the host did not refuse."""
        host, output = urlsplit(self._host).netloc, result.output
        if result.code is None:
            return SourceUnavailable(
                f"{self._name}: git made no progress within its time limit; the next sync tries again"
            )
        if _LIMITED.search(output):
            return RateLimited(host)
        if not self._alone and (_LOGIN.search(output) or _MISSING.search(output)):
            return AccessDenied(f"{self._name}: private or not found; provide a token with read access, or remove it")
        if _LOGIN.search(output):
            remedy = "provide a token with read access: --secret token=env:VARIABLE"
            return LoginFailed(f"{self._name}: private or not found; {remedy}")
        if _MISSING.search(output):
            return SourceUnavailable(f"{self._name}: repository not found; correct its name, or remove it")
        if _NETWORK.search(output) and not (_FULL.search(output) or _NO_COMMIT.search(output)):
            return SourceUnavailable(f"{host}: cannot connect; check the network, or wait")
        return None
