"""The home folder, which holds all state. Separate from the other settings, so that commands start without loading them."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from catchment.errors import BadInput
from catchment.runtime import atomic_files, process

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""A control character. Not allowed in any setting or path."""

_DATABASE = "CATCHMENT_DATABASE_URL="
_LONGEST = 480
"""Maximum length in bytes. SQLite limits paths to 512 bytes, including `-journal` and the file name."""


class _Below:
    """A file or folder below the home folder."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __get__(self, home: Home, _: type[Home]) -> Path:
        return home.path / self._place


@dataclass(frozen=True, slots=True)
class Home:
    """The folder with all state; deleting it removes every trace of Catchment. Folders have mode 0700, files 0600."""

    path: Path

    environment = _Below("environment")
    """Variables of the service, one `NAME=value` per line. Every command takes the database from it."""
    cache = _Below("cache.db")
    """Cache of parsed content. May be deleted at any time."""
    raw = _Below("raw.db")
    """Raw content of items. May be deleted at any time."""
    sources_file = _Below("sources.yaml")
    """Definitions of the sources, in the format of prefect.yaml."""
    membership = _Below("join.yaml")
    """The name of a joined host and its Prefect server. Missing in a home that runs alone."""
    authorities = _Below("authorities.pem")
    """The certificate authorities that a joined host trusts, if they differ from the system's."""
    inbox = _Below("inbox.txt")
    """The list of addresses that the source `inbox` reads, one per line."""
    pushed = _Below("pushed")
    """The documents that programs pushed, in a folder for each source: their only copy."""
    push_tokens = _Below("push-tokens")
    """The tokens of programs that push, by their digests. Never in a backup, which could bring back a revoked one."""
    alerts_file = _Below("alerts.yaml")
    """The objectives, and the rules of messages about incidents."""
    web_port = _Below("web-port")
    """The port of the page, which is kept from start to start."""
    plans = _Below("plans")
    """Saved sync plans."""
    secrets = _Below("secrets")
    """Secrets that were typed or obtained by a login, each in a file."""
    audit = _Below("audit")
    """The key that signs the history, which is never in a backup, and the checkpoints."""
    checkpoints = _Below("audit/checkpoints")
    """The signed checkpoints of the history. They only grow: a backup contains them, and a restore adds one."""
    backups = _Below("backups")
    """Default folder of backups. Created with the first one."""
    prefect = _Below("prefect")
    """Prefect's own state: database, profile and results."""
    run = _Below("run")
    """Process files: identities and ports."""
    open_incidents = _Below("run/incidents")
    """An empty file that exists while an incident is open: then everything is checked more often."""
    signin_keys = _Below("run/signin")
    """Folder with the digests of the one-time keys of the web page."""
    logs = _Below("logs")
    """Log files of the server and the worker."""

    @classmethod
    def default(cls) -> Home:
        """Return `CATCHMENT_HOME` or the platform's data folder. Raises BadInput if the folder cannot hold state."""
        home = cls._located()
        home._refuse_what_cannot_work()
        _ = home.raw_bytes
        process.look_in(home.run)
        return home

    @classmethod
    def _located(cls) -> Home:
        configured = os.environ.get("CATCHMENT_HOME")
        if configured and "?" in configured:
            # A database URL would treat the rest of the path as options.
            raise BadInput(
                "CATCHMENT_HOME: contains a question mark, which database addresses do not allow; rename the folder"
            )
        try:
            if configured:
                return cls(Path(configured).expanduser().absolute())
            if sys.platform == "darwin":
                return cls(Path.home() / "Library" / "Application Support" / "catchment")
            return cls(base_folder("XDG_DATA_HOME", ".local/share") / "catchment")
        except RuntimeError:
            raise BadInput(
                "CATCHMENT_HOME: unknown home folder of the user; set CATCHMENT_HOME to a full path"
            ) from None

    def make(self) -> Home:
        """Create the folders and restrict the home to its owner. Idempotent. Raises HomeUnavailable."""
        with atomic_files.explained():
            for folder in (self.path, self.prefect, self.run, self.logs, self.audit):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._close()
        process.announce_in(self.run)
        return self

    def _close(self) -> None:
        """Set mode 0700 if others have access, unless the folder evidently has other uses too."""
        status = self.path.stat()
        is_shared = status.st_mode & stat.S_ISVTX or expanded(Path("~")).is_relative_to(self.path)
        if status.st_mode & 0o077 and status.st_uid == os.geteuid() and not is_shared:
            # FAT and some network file systems have no modes.
            with suppress(PermissionError):
                self.path.chmod(0o700)

    def _refuse_what_cannot_work(self) -> None:
        if CONTROL.search(str(self.path)):
            raise BadInput("CATCHMENT_HOME: contains a control character; rename the folder")
        length = len(os.fsencode(os.path.realpath(self.path)))
        if length > _LONGEST:
            raise BadInput(
                f"CATCHMENT_HOME: a path of {length} bytes is too long for SQLite; choose a path of at most {_LONGEST}"
            )
        try:
            is_link = stat.S_ISLNK(self.path.lstat().st_mode)
            if not self.path.is_dir():
                what = (
                    "a link to a folder that is not there; mount its disk, or" if is_link else "a file, not a folder;"
                )
                raise BadInput(f"CATCHMENT_HOME is {what} correct the path")
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise BadInput("CATCHMENT_HOME: a name is too long for the disk; shorten it") from None
            if error.errno == errno.ENOTDIR:
                raise BadInput("CATCHMENT_HOME: a part of the path is not a folder; correct the path") from None
        for folder in (self.path, self.prefect, self.run, self.logs, self.plans):
            # The code that needs the folder reports that it is missing or unreadable.
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if _never_ends(entry):
                        name = Path(entry.path).relative_to(self.path)
                        raise BadInput(f"CATCHMENT_HOME: {name} is a pipe or a device, not a file; move it away")

    @property
    def database_url(self) -> str:
        """Return `CATCHMENT_DATABASE_URL` of the process or of the file `environment`, or the URL of the SQLite file here."""
        return os.environ.get(_DATABASE[:-1]) or self.named_database or f"sqlite:///{self.path / 'ledger.db'}"

    @property
    def named_database(self) -> str:
        """The database that the file `environment` names; empty for none."""
        addresses = [line[len(_DATABASE) :] for line in self._variables() if line.startswith(_DATABASE)]
        return addresses[-1].strip("\"'") if addresses else ""

    def use_database(self, url: str) -> None:
        """Name the database of the ledger in the file `environment`; none if `url` is empty. Raises HomeUnavailable."""
        others = [line for line in self._variables() if not line.startswith(_DATABASE)]
        named = [f"{_DATABASE}{url}"] if url else []
        with atomic_files.explained():
            atomic_files.write(self.environment, "\n".join([*others, *named, ""]).encode())

    def _variables(self) -> list[str]:
        with suppress(FileNotFoundError):
            return [line.strip() for line in self.environment.read_text(encoding="utf-8").splitlines()]
        return []

    def identity(self) -> int:
        """Return a positive number of 56 bits that no other home has. A moved home keeps it, and a copy has another one."""
        file = self.path / "home-id"
        with atomic_files.explained():
            if not file.exists():
                with atomic_files.alone(self.make().path):
                    if not file.exists():
                        atomic_files.write(file, os.urandom(16))
            # The copy of a file has another inode.
            facts = b"%b %d" % (file.read_bytes(), file.stat().st_ino)
        return int.from_bytes(hashlib.sha256(facts).digest()[:7], "big")

    @property
    def raw_bytes(self) -> int:
        """Maximum size of the raw content: `CATCHMENT_RAW_MB`, 1,000 by default. Raises BadInput."""
        megabytes = os.environ.get("CATCHMENT_RAW_MB", "1000")
        if not (megabytes.isascii() and megabytes.isdecimal()):
            raise BadInput("CATCHMENT_RAW_MB: must be a whole number of megabytes; correct it, or unset it for 1000")
        return int(megabytes) * 1_000_000

    @property
    def user_files(self) -> tuple[Path, ...]:
        """What a backup contains besides the ledger, and a restore puts back: files that the user writes, and a folder."""
        return self.sources_file, self.alerts_file, self.inbox, self.pushed

    def copies(self, source: str) -> Path:
        """Return the folder for a source's local copy. Deleted with the source; recreated if missing."""
        return self.path / "copies" / source


def _never_ends(entry: os.DirEntry[str]) -> bool:
    """Return whether reading the file may block forever or never reach its end."""
    if entry.is_file() or entry.is_dir():
        return False
    with suppress(FileNotFoundError):  # dangling link
        mode = entry.stat().st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    return False


def expanded(path: Path) -> Path:
    """Return the path with `~` expanded, or unchanged if the user does not exist."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def base_folder(variable: str, usual: str) -> Path:
    """Return an XDG base folder of this user: the variable's value if it is an absolute path, else the default."""
    configured = Path(os.environ.get(variable, "")).expanduser()
    return configured if configured.is_absolute() else Path.home() / usual
