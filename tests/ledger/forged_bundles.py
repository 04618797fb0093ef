"""`python -m tests.ledger.forged_bundles FOLDER`: the verifier against bundles that an attacker changed and signed.

Replaces each value of each JSON text in an unpacked bundle by each odd value, and each file by odd bytes. The attacker signs
the result with their own key and computes the hashes anew, so that no signature and no hash saves the verifier. Prints a
line for each case in which the verifier does anything but report, in bounded time and memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import resource
import shutil
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from catchment.audit import verify
from catchment.audit.tree import Tree

_MEMORY = 400 << 20
_SECONDS = 10.0
_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_PUBLIC = _KEY.public_key().public_bytes_raw()
_FORGED_LINE = "\x1b[2K\rintact: 9 of 9 rows\nintact: \u202e \u200b \U000e0041 \ud800"
_DEEP: list[Any] = []
for _ in range(200):
    _DEEP = [_DEEP]
ODD: tuple[Any, ...] = (
    *(-1, 0, 1, 10**12, 2**63, 10**18, 10**30, -(10**18), 10**4_000),
    *(1.5, float("nan"), float("inf"), True, False, None),
    *("", _FORGED_LINE, "9" * 100, "pending", [], {}, [1], {"a": 1}, _DEEP),
)
_NUMBER = b"9" * 1_000_000
BYTES = (
    *(b"", b"\n", b"\0" * 1_000, b"\xff\xfe", b"[" * 1_000_000, b'{"a":' * 100_000, b"[]", b"{}", b"null", b"1"),
    *(_NUMBER, b"-" + _NUMBER, b"[" + _NUMBER + b"]", b'{"id":' + _NUMBER + b"}\n", b'"' + b"x" * 10_000_000),
    *(b"[NaN]", b'{"id":1,"id":2}\n', b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"]\n" * 3, b"[" + b'"' * 47),
)


def sign(folder: Path) -> None:
    """Sign the files and the rows as they are."""
    sign_as(folder, described_by(folder))


def sign_as(folder: Path, manifest: Any, root: str | None = None) -> None:
    """Sign a manifest and a root, by default that of the rows."""
    described = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    (folder / "manifest.json").write_bytes(described)
    size = manifest.get("size", 0) if isinstance(manifest, dict) else 0
    text = verify.checkpoint(
        size, _root(folder) if root is None else b64decode(root), f"manifest {hashlib.sha256(described).hexdigest()}"
    )
    signature = b64encode(verify.key_id(_PUBLIC) + _KEY.sign(text.encode(errors="surrogatepass"))).decode()
    note = f"{text}\n\u2014 {verify.ORIGIN} {signature}\n"
    (folder / "checkpoint.txt").write_bytes(note.encode(errors="surrogatepass"))


def described_by(folder: Path) -> dict[str, Any]:
    """Return a manifest for the files of a folder, signed by the attacker."""
    files = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in verify.FILES}
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return manifest | {"files": files, "key": b64encode(_PUBLIC).decode()}


def _root(folder: Path) -> bytes:
    """Return the root of a whole history; if it cannot be computed, any hash."""
    tree, previous = Tree(), b""
    try:
        for line in (folder / "history.jsonl").read_bytes().splitlines():
            row = json.loads(line)
            previous = verify.link(previous, [row[name] for name in verify.FIELDS])
            tree.extend([previous], [True])
    except (ValueError, LookupError, TypeError, RecursionError):
        return hashlib.sha256(b"").digest()
    return tree.root()


def _changed(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the value with each of its parts replaced by each odd value, left out or doubled in another form."""
    for odd in ODD:
        yield (*path, odd if isinstance(odd, str | int | float) else type(odd)), odd
    if isinstance(value, dict):
        for key in value:
            yield (*path, key, "removed"), {name: one for name, one in value.items() if name != key}
            yield (*path, key, "renamed"), {f"{name}!" if name == key else name: one for name, one in value.items()}
            for where, one in _changed(value[key], (*path, key)):
                yield where, value | {key: one}
        yield (*path, "added"), value | {"zzz": 1}


def _cases(original: Path, folder: Path) -> Iterator[str]:
    """Yield a description of each case, after it was written to the folder."""

    def restore() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder)

    for file in ("history.jsonl", "jobs.jsonl", "artifacts.jsonl", "throttles.jsonl"):
        lines = (original / file).read_bytes().splitlines(keepends=True)
        for number in sorted({0, len(lines) - 1}) if lines else []:
            for where, value in _changed(json.loads(lines[number])):
                restore()
                text = json.dumps(value).encode() + b"\n"
                (folder / file).write_bytes(b"".join([*lines[:number], text, *lines[number + 1 :]]))
                sign(folder)
                yield f"{file} {number} {where!r}"[:200]
        for name, content in {
            "a line twice": [*lines, *lines[-1:]],
            "reversed": lines[::-1],
            "without its first line": lines[1:],
            "without its last line": lines[:-1],
            "two lines in one": [b"".join(lines).replace(b"\n", b" ")],
            "a field twice": [b'{"id":1,' + line[1:] for line in lines],
        }.items():
            restore()
            (folder / file).write_bytes(b"".join(content))
            sign(folder)
            yield f"{file} {name}"
    restore()
    for where, manifest in _changed(described_by(folder)):
        sign_as(folder, manifest)
        yield f"manifest.json {where!r}"[:200]
    for file in (*verify.FILES, "manifest.json", "checkpoint.txt"):
        for content in BYTES:
            restore()
            (folder / file).write_bytes(content)
            if file in verify.FILES:
                sign(folder)
            yield f"{file} {content[:20]!r}"


def judged(folder: Path) -> tuple[bool, str | None]:
    """Return whether the verifier takes a bundle for intact, and its defect, or None."""
    output = io.StringIO()
    sys.argv = ["verify.py", str(folder), "--item", "2"]
    before = time.process_time()
    try:
        with redirect_stdout(output):
            code = verify.main()
    except BaseException as error:  # noqa: BLE001 - every exception is a defect of the verifier
        return False, f"raised {type(error).__name__}: {error}"[:200]
    seconds, lines = time.process_time() - before, output.getvalue().split("\n")
    first, *others, last = lines
    if seconds > _SECONDS:
        return False, f"took {seconds:.0f} s"
    if last or not all(line.isprintable() and verify.visible(line) == line for line in lines):
        return False, f"printed {lines!r}"[:500]
    if code:
        return False, None if code == 1 and first.startswith("broken: ") and not others else f"said {lines!r}"
    rows = (folder / "history.jsonl").read_bytes().count(b"\n")
    size = int((folder / "checkpoint.txt").read_text().split("\n")[1])
    is_counted = first.startswith(f"intact: {rows} of {size} rows of the history, signed with ")
    is_of_attacker = b64decode(first.rpartition(" ")[2]) == _PUBLIC
    return True, None if is_counted and is_of_attacker else f"said {first!r}, of {rows} rows of {size}"


def main(original: Path, every: int) -> None:
    """Try every case with this interval; print the verifier's defects, and the numbers of broken and intact bundles."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    folder, found = original.with_name("forged"), [0, 0]
    for case in islice(_cases(original, folder), 0, None, every):
        is_intact, wrong = judged(folder)
        found[is_intact] += 1
        if wrong:
            print(f"{case}: {wrong}")
    print(json.dumps({"broken": found[0], "intact": found[1]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
