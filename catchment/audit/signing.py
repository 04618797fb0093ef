"""The key of a home that signs its history, and the signed checkpoints: how long the history was, and the root of its tree.

A program that can write the ledger but not read the key can compute a whole new chain of hashes; it then differs from the
checkpoints, of which each is a line of JSON.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TYPE_CHECKING

from catchment.audit.verify import ORIGIN, Broken, checkpoint, key_id, opened
from catchment.runtime import atomic_files, own_secrets
from catchment.runtime.home import Home

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_NEXT, _MAY_BE_ERASED = "next ", "erased "
_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class TreeHead:
    """The number of rows of the history, and the root of their tree, as signed.

    `erased`: how many rows may be erased, all of them among the first `erased_to`.
    """

    size: int
    root: bytes
    erased: int = 0
    erased_to: int = 0


class Signer:
    """The private key of a home, created at the first use."""

    def __init__(self, home: Home) -> None:
        self._home = home
        with atomic_files.explained():
            secret = own_secrets.obtain(home.make().audit / "key", _new_seed, _is_seed, "a key of 32 bytes in Base64")
        self._key = _private(secret)

    @property
    def public(self) -> str:
        """The public key in Base64."""
        return base64.b64encode(self._public).decode()

    @property
    def _public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def note(self, size: int, root: bytes, *more: str) -> str:
        """Return a signed checkpoint. `more`: further lines that are signed."""
        text = checkpoint(size, root, *more)
        signature = base64.b64encode(key_id(self._public) + self._key.sign(text.encode())).decode()
        return f"{text}\n\u2014 {ORIGIN} {signature}\n"

    def remember(self, size: int, root: bytes, erased: tuple[int, int] | None = None) -> None:
        """Add a checkpoint to those of this home. `erased`: how many rows may be erased from now on, and the last of them."""
        self._append(self.note(size, root, *([] if erased is None else [f"{_MAY_BE_ERASED}{erased[0]} {erased[1]}"])))

    def rotate(self, size: int, root: bytes) -> Signer:
        """Replace the key by a new one, which the old one signs. Return the new signer."""
        seed = _new_seed()
        fresh = base64.b64encode(_private(seed).public_key().public_bytes_raw()).decode()
        self._append(self.note(size, root, _NEXT + fresh))
        with atomic_files.explained():
            # Killed before this, the old key signs once more, and vouches for another new one.
            atomic_files.write(self._home.audit / "key", f"{seed}\n".encode())
        return Signer(self._home)

    def minisign(self, file: Path, comment: str) -> str:
        """Return the signature of a file as `minisign -V` reads it; `comment` is signed, too."""
        digest = blake2b()
        with file.open("rb") as content:
            while part := content.read(_PART):
                digest.update(part)
        signature = self._key.sign(digest.digest())
        whole = self._key.sign(signature + comment.encode())
        body = base64.b64encode(b"ED" + self._minisign_id + signature).decode()
        return (
            "untrusted comment: signature of a Catchment audit bundle\n"
            f"{body}\ntrusted comment: {comment}\n{base64.b64encode(whole).decode()}\n"
        )

    @property
    def minisign_key(self) -> str:
        """The public key as `minisign -P` takes it."""
        return base64.b64encode(b"Ed" + self._minisign_id + self._public).decode()

    @property
    def _minisign_id(self) -> bytes:
        return sha256(self._public).digest()[:8]

    def _append(self, note: str) -> None:
        file = self._home.checkpoints
        with atomic_files.explained(), atomic_files.alone(self._home.audit):
            before = file.read_bytes() if file.exists() else b""
            line = json.dumps({"key": self.public, "note": note}, ensure_ascii=False)
            atomic_files.write(file, before + f"{line}\n".encode())


def checkpoints(home: Home, signer: Signer) -> tuple[list[TreeHead], list[str]]:
    """Return the valid checkpoints of a home, smallest first, and one sentence for each invalid one.

    Each key but the first must have been announced by the one before it, and the last one is the signer's.
    """
    file = home.checkpoints
    found: list[TreeHead] = []
    problems: list[str] = []
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    allowed: set[str] = set()
    for number, line in enumerate(lines, 1):
        try:
            stored = json.loads(line)
            if allowed and stored["key"] not in allowed:
                raise Broken("it was signed with an unknown key")
            _, size, root, *more = opened(stored["note"], base64.b64decode(stored["key"]))
        except (Broken, ValueError, KeyError, TypeError) as error:
            problems.append(f"Checkpoint {number}: {error if isinstance(error, Broken) else 'is unreadable'}")
            continue
        following = {line.removeprefix(_NEXT) for line in more if line.startswith(_NEXT)}
        # A kill during a rotation leaves the old key in use.
        allowed = {stored["key"], *following}
        erased = next((line.split(" ")[1:] for line in more if line.startswith(_MAY_BE_ERASED)), ())
        found.append(TreeHead(int(size), base64.b64decode(root), *map(int, erased)))
    if allowed and signer.public not in allowed:
        problems.append("The key of this home has signed none of its checkpoints; restore the file `audit/key`")
    return sorted(found, key=lambda one: one.size), problems


def _new_seed() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()


def _private(seed: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(seed))


def _is_seed(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 32
    except ValueError:
        return False
