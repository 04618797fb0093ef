"""Rules that recognize secrets: the token formats by issuer in `token_formats.txt`, and the common notations of passwords.

A rule has a name, hints and a shape. Ambiguous shapes need further evidence: a checksum, randomness or the words around
them, which `secret_checks` examines. docs/privacy.md lists the kinds. Masking is in `secret_masking`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from catchment.content.secret_checks import (
    IN_BASE58,
    has_base58_check,
    has_bech32_check,
    is_authorization,
    is_credential,
    is_key,
    is_named,
    is_named_key,
    is_named_password,
    is_named_secret,
    is_no_filler,
    is_no_name,
    is_random_match,
)


class Scope(Enum):
    """The text in which the hints of a rule are looked for, which keeps the search fast."""

    START = auto()
    """The start of a word: each token begins with a hint."""
    WORD = auto()
    """A long word: the secret and its hint are one."""
    TEXT = auto()
    """The whole text."""
    NAME = auto()
    """None: the pattern applies to lower-case text and begins with a literal word."""


class SecretRule(NamedTuple):
    """A kind of secret. The secret is the last named group of `pattern` that matches, or the whole match without groups.

    `hints`: at least one occurs in or before each secret. `holds`: returns whether a match is a secret.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[re.Match[str], str], bool]
    scope: Scope = Scope.WORD


# Shapes are regular expressions with %a: letter or digit, %w: also - and _, %h: lower hexadecimal, %u: capital or digit,
# %l: small letter or digit, %i: UUID. %n: a token is not made of words, as names are.
_MACROS = {
    "%a": "[A-Za-z0-9]",
    "%w": "[A-Za-z0-9_-]",
    "%h": "[a-f0-9]",
    "%u": "[A-Z0-9]",
    "%l": "[a-z0-9]",
    "%i": "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    "%n": "",
}

_LETTER_OR_DIGIT = "[A-Za-z0-9]"
BOUNDARY = f"(?<!{_LETTER_OR_DIGIT})(?<!{_LETTER_OR_DIGIT}_)"
"""Asserts that no longer word includes the text that follows; `__` marks bold text and bounds words."""

_FIRST = re.compile(r"(\w|\[[^]]*\])(?:\{(\d+)\})?(?![?*+{])")


def _expanded(shape: str) -> str:
    for macro, meaning in _MACROS.items():
        shape = shape.replace(macro, meaning)
    return shape


def _bounded(shape: str) -> re.Pattern[str]:
    """Return a pattern for a shape that is not part of a longer word.

    `BOUNDARY` is asserted after the first character, because a search that starts with a character is quick.
    """
    after = "" if shape.endswith("=") else f"(?!_?{_LETTER_OR_DIGIT})"
    first = _FIRST.match(shape)
    start, rest = (first[1], shape[first.end() :]) if first else ("", shape)
    if first and first[2]:
        rest = f"{start}{{{int(first[2]) - 1}}}{rest}"
    return re.compile(f"{start}(?<!{_LETTER_OR_DIGIT}{start})(?<!{_LETTER_OR_DIGIT}_{start}){rest}{after}")


def _token(row: str) -> SecretRule:
    name, words, shape = re.split(r" {2,}", row, maxsplit=2)
    hints, first = tuple(words.split()), shape.removeprefix("(?:").partition(")")[0].replace("\\", "")
    holds = is_no_name if "%n" in shape else is_no_filler
    starts = all(any(start.startswith(hint) for start in first.split("|")) for hint in hints)
    shape = _expanded(shape)
    pattern = re.compile(shape) if shape.startswith("[?&]") else _bounded(shape)
    return SecretRule(name, hints, pattern, holds, Scope.START if starts else Scope.WORD)


def _checked(name: str, hints: str, shape: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a token with a checksum."""
    return SecretRule(name, tuple(hints.split()), _bounded(shape), holds)


_GAP = r"[^A-Za-z0-9+/=-]{1,20}+"
_KEY_LINES = rf"(?>(?:{_GAP}[A-Z][A-Za-z-]{{2,20}}+: [^\n\\]{{1,200}}+){{0,5}})(?>(?:{_GAP}[A-Za-z0-9+/=]{{20,}}+)+)"
"""The lines of a key without a last line: fields, then lines of base64, however they are quoted."""


def _private_key(first: str, kind: str, *hints: str) -> SecretRule:
    """Return a rule for the body of a key: from its first line to its last line, or to the end of its lines of base64.

    `first` is the first line with {} in place of the kind of key.
    """
    dashes = first.partition("BEGIN")[0].strip()
    last = first.replace("BEGIN", "END")
    return SecretRule(
        "private key",
        hints,
        re.compile(
            first.format(f"(?P<kind>{kind})")
            + f"(?:(?P<secret>(?>(?:[^-]++|-(?!{dashes[1:]})){{1,10000}})){last.format('(?P=kind)')}|(?P<lines>{_KEY_LINES}))"
        ),
        is_key,
        Scope.TEXT,
    )


_VALUE = (
    r"(?:\\{0,3}[bru@]?(?:\"(?P<double>[^\s\"'`]{4,200}+)\"|'(?P<single>[^\s\"'`]{4,200}+)'|`(?P<ticked>[^\s\"'`]{4,200}+)`)"
    r"|(?P<bare>[^\s\"'`,;<>()\[\]{}|&]{4,200}+)(?=[\s,;\"'`<)\]}|&]|\Z))"
)
_ASSIGNED = (
    r"(?P<suffix>[\w-]{0,24}+)[\\\"'`\]*]{0,5}"
    r"(?:(?:[ \t]{0,8}(?::[ \t]?[a-z][\w.]{0,20}[ \t]=|:=|=>|[:=]{1,3})[*_]{0,2}|[\s,]{1,40}+[\"']?value[\"']?[:=])"
    rf"[ \t]{{0,8}}{_VALUE}"
    r"|[ \t]{0,3},[ \t]{0,3}[\"'](?P<argument>[^\s\"'`]{4,200}+)[\"']|>(?P<element>[^\s<>]{4,200}+)</"
    r"|[ \t][\"']?(?P<option>[^\s\"'`,;<>()\[\]{}|&]{4,200}+)(?=[\s\"'`]|\Z))"
)


def _assigned(name: str, words: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a value that is assigned to one of these names."""
    return SecretRule(name, (), re.compile(words + _ASSIGNED), holds, Scope.NAME)


def _after(name: str, pattern: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a secret that follows certain words; the pattern applies to lower-case text."""
    return SecretRule(name, (), re.compile(pattern), holds, Scope.NAME)


RULES: tuple[SecretRule, ...] = (
    _private_key(
        "-----BEGIN {}-----",
        r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1",
        "PRIVATE KEY-----",
        "PRIVATE KEY BLOCK-----",
        "Static key V1-----",
    ),
    _private_key("---- BEGIN {} ----", r"SSH2 (?:ENCRYPTED )?PRIVATE KEY", "PRIVATE KEY ----"),
    SecretRule(
        "private key",
        ("Private-Lines:",),
        re.compile(r"Private-Lines: [0-9]{1,4}\r?\n(?P<secret>(?:[A-Za-z0-9+/=]{1,200}\r?(?:\n|\Z)){1,1000})"),
        lambda _match, _text: True,
        Scope.TEXT,
    ),
    *map(_token, Path(__file__).with_name("token_formats.txt").read_text("ascii").splitlines()[1:]),
    _checked(
        "Bitcoin key",
        "5H 5J 5K Kw Kx Ky Kz L1 L2 L3 L4 L5",
        f"(?:5[HJK]|K[w-z]|L[1-5])[{IN_BASE58}]{{49,50}}",
        has_base58_check,
    ),
    _checked("Bitcoin extended key", "prv", f"[xyztuv]prv[{IN_BASE58}]{{107,108}}", has_base58_check),
    _checked("Nostr key", "nsec1", "nsec1[02-9ac-hj-np-z]{58}", has_bech32_check),
    SecretRule(
        "password",
        ("://",),
        re.compile(r"://[A-Za-z0-9._%+-]{0,64}+:(?P<secret>[^\s/@:\"'<>]{3,128}+)@(?=[A-Za-z0-9\[])"),
        is_credential,
        Scope.TEXT,
    ),
    _after(
        "AWS secret key",
        r"aws.{0,20}?(?:secret|key).{0,20}?[=:]\s{0,3}[\"']?(?P<secret>[a-z0-9/+]{40})(?![a-z0-9/+=])",
        is_random_match,
    ),
    _after(
        "authorization",
        r"auth(?:orization[\"'\]]{0,3}[ \t]{0,3}[:=,][ \t]{0,3}[\"'`]?(?:(?:bearer|token|apikey|bot|digest)[ \t]{1,3}"
        r"(?P<secret>[a-z0-9._~+/=-]{16,2000}+)|basic[ \t]{1,3}(?P<login>[a-z0-9+/]{8,400}+={0,2}))"
        r"|[ \t]{0,3}=[ \t]{0,3}[\"']?(?P<npm>[a-z0-9+/]{8,400}+={0,2}))",
        is_authorization,
    ),
    _after(
        "password",
        r"curl [^\n]{0,120}?(?:-u|--user|--proxy-user)[ =][\"']?[^\s:\"'$]{1,60}:(?P<secret>[^\s\"'@]{4,128}+)",
        is_credential,
    ),
    _assigned("password", r"pass(?:wor[dt]|wd|phrase|code| -p|(?<![a-z]pass))", is_named_password),
    _assigned("password", r"pwd", is_named_password),
    _assigned("secret", r"secret(?!smanager)", is_named_secret),
    _assigned("secret", r"token", is_named),
    _assigned("secret", r"key", is_named_key),
)
"""All rules in the order in which they are applied: rules for tokens of one issuer come first."""
