"""The key of a home that signs its history.

A program that can write the ledger but not read the key can compute a whole new chain of hashes; it then differs from the
checkpoints. The key is read at each signature, while no other process can replace it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TYPE_CHECKING

from catchment.audit.signed_log import (
    AFTER,
    MAY_BE_ERASED,
    NEXT,
    RESTORED,
    Restoration,
    SignedLine,
    TreeHead,
    digest,
    dumped,
    read,
    taken_over,
)
from catchment.audit.verify import NO_LEAVES, ORIGIN, checkpoint, key_id
from catchment.errors import ConfigError, Refused, TryAgain
from catchment.runtime import atomic_files, own_secrets
from catchment.runtime.home import Home

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PART = 1 << 20
_START_ANEW = (
    "bring the present one back from a copy of the home, or move it and `audit/checkpoints` away to start anew"
)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public key of a home in Base64."""

    key: str

    @property
    def minisign(self) -> str:
        """The key as `minisign -P` takes it."""
        return base64.b64encode(b"Ed" + self.minisign_id + self._bytes).decode()

    @property
    def minisign_id(self) -> bytes:
        """The identity of the key in the signatures of minisign."""
        return sha256(self._bytes).digest()[:8]

    @property
    def _bytes(self) -> bytes:
        return base64.b64decode(self.key)


class Signer:
    """The private key of a home. Use it only in the block of `signing`."""

    def __init__(self, home: Home, seed: str, lines: bytes) -> None:
        self._home, self._seed, self._lines = home, seed, lines

    @property
    def public(self) -> str:
        """The public key in Base64."""
        return _public(self._seed)

    def note(self, size: int, root: bytes, *lines: str) -> str:
        """Return a signed checkpoint. `lines`: further lines that are signed."""
        text = checkpoint(size, root, *lines)
        signed = key_id(base64.b64decode(self.public)) + _private(self._seed).sign(text.encode())
        return f"{text}\n\u2014 {ORIGIN} {base64.b64encode(signed).decode()}\n"

    def remember(self, head: TreeHead, restored: Restoration | None = None) -> None:
        """Add a checkpoint to those of this home."""
        lines = []
        if head.erased:
            lines.append(" ".join((MAY_BE_ERASED, str(head.erased), str(head.erased_to), *head.erased_rows)))
        if restored:
            lines.append(f"{RESTORED} {json.dumps(asdict(restored))}")
        self._add(head.size, head.root, *lines)
        atomic_files.write(self._home.checkpoints, self._lines)

    def rotate(self) -> None:
        """Replace the key, see `rotate`."""
        old, fresh = self._seed, _new_seed()
        # Until the checkpoints are written, the old key is in use, and from then on the new one: see `_in_use`.
        self._keep(old, fresh)
        self._add(0, NO_LEAVES, f"{NEXT} {_public(fresh)}")
        self._seed = fresh
        self._add(0, NO_LEAVES)
        atomic_files.write(self._home.checkpoints, self._lines)
        self._keep(fresh)

    def take_over(self, lines: bytes) -> None:
        """Take over the checkpoints of a backup, with the next one."""
        if self._lines.startswith(lines):
            return
        home = read(lines)[-1:]
        if lines.startswith(self._lines) and home and home[0].key == self.public:
            self._lines = lines
        else:
            self._lines += taken_over(lines, self._lines)

    def keep_alone(self) -> None:
        """Store the key, without the other one of a rotation that was killed."""
        self._keep(self._seed)

    def minisign(self, file: Path, comment: str) -> str:
        """Return the signature of a file as `minisign -V` reads it; `comment` is signed, too."""
        hashed = blake2b()
        with file.open("rb") as content:
            while part := content.read(_PART):
                hashed.update(part)
        key = _private(self._seed)
        signature = key.sign(hashed.digest())
        whole = key.sign(signature + comment.encode())
        body = base64.b64encode(b"ED" + PublicKey(self.public).minisign_id + signature).decode()
        return (
            "untrusted comment: signature of a Catchment audit bundle\n"
            f"{body}\ntrusted comment: {comment}\n{base64.b64encode(whole).decode()}\n"
        )

    def _add(self, size: int, root: bytes, *lines: str) -> None:
        note = self.note(size, root, f"{AFTER} {digest(self._lines)}", *lines)
        self._lines += dumped({"key": self.public, "note": note})

    def _keep(self, *seeds: str) -> None:
        atomic_files.write(self._home.audit / "key", "".join(f"{seed}\n" for seed in seeds).encode())


@contextmanager
def signing(home: Home, *, since: bytes | None = None, is_restore: bool = False) -> Iterator[Signer]:
    """Yield the key of a home, created at the first use. No other process signs or replaces the key during the block.

    `since`: the checkpoints at the time when the history was read; a restore since then replaced that history. `is_restore`:
    the checkpoint of a restore may follow an invalid one, and may be by a new key.

    Raises Refused if the last checkpoint is not valid, TryAgain after a restore, ConfigError for a damaged or missing key, and
    HomeUnavailable.
    """
    with atomic_files.explained(), atomic_files.alone(home.make().audit):
        lines = _lines(home)
        seeds = _stored(home)
        if seeds is None and lines and not is_restore:
            raise ConfigError(f"audit/key: missing; {_START_ANEW}")
        signed = read(lines)
        signer = Signer(home, _in_use(seeds, lines) if seeds else _new_seed(), lines)
        if is_restore and signer.public in {line.key for line in signed if not line.problem} - {_latest(signed)}:
            raise ConfigError(f"audit/key: was replaced by another one; {_START_ANEW}")
        if seeds is None or len(seeds.split()) > 1:
            signer.keep_alone()
        if not is_restore and signed and (signed[-1].problem or signed[-1].key != signer.public):
            raise Refused("audit: the last checkpoint is not valid; see `catchment audit verify`")
        if since is not None and any(line.restoration for line in signed[len(read(since)) :]):
            raise TryAgain("audit: the library was restored meanwhile; try again")
        yield signer


def log_and_key(home: Home) -> tuple[bytes, str]:
    """Return the checkpoints of a home and its public key, as of one moment; both empty before the first signature."""
    with atomic_files.explained(), atomic_files.alone(home.audit):
        lines = _lines(home)
        seeds = _stored(home)
        return lines, _public(_in_use(seeds, lines)) if seeds else ""


def public_key(home: Home) -> PublicKey:
    """Return the public key of a home, created at the first use. Raises as `signing`."""
    if home.audit.exists() and (key := log_and_key(home)[1]):
        return PublicKey(key)
    with signing(home) as signer:
        return PublicKey(signer.public)


def rotate(home: Home) -> PublicKey:
    """Replace the key of a home. The old key announces the new one, which signs all checkpoints so far. Raises as `signing`.

    A kill leaves either key in use, and the checkpoints valid.
    """
    with signing(home) as signer:
        signer.rotate()
        return PublicKey(signer.public)


def _stored(home: Home) -> str | None:
    try:
        return own_secrets.stored(home.audit / "key")
    except IsADirectoryError:
        raise ConfigError(f"audit/key: a folder; {_START_ANEW}") from None


def _latest(signed: Sequence[SignedLine]) -> str:
    return next((line.key for line in reversed(signed) if not line.problem), "")


def _lines(home: Home) -> bytes:
    lines = home.checkpoints.read_bytes() if home.checkpoints.exists() else b""
    return lines if lines.endswith(b"\n") or not lines else lines + b"\n"


def _in_use(seeds: str, lines: bytes) -> str:
    """Return the key of a home. Of the two that a killed rotation leaves: the signer of the last checkpoint, else the first."""
    if not _are_seeds(seeds):
        raise ConfigError(f"audit/key: not a key of 32 bytes in Base64; {_START_ANEW}")
    first, *others = seeds.split()
    signed = [line.key for line in read(lines)[-1:]] if others else []
    return next((seed for seed in others if _public(seed) in signed), first)


def _new_seed() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()


def _private(seed: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(seed))


def _public(seed: str) -> str:
    return base64.b64encode(_private(seed).public_key().public_bytes_raw()).decode()


def _are_seeds(text: str) -> bool:
    try:
        return all(len(base64.b64decode(seed, validate=True)) == 32 for seed in text.split())
    except ValueError:
        return False
