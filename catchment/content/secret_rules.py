"""Rules that recognize secrets: the token formats by issuer in `token_formats.txt`, and the common notations of passwords.

A rule has a name, hints and a shape. Ambiguous shapes need further evidence: a checksum, randomness or the words around
them, which `secret_checks` examines. docs/masked-secrets.md lists the kinds. Masking is in `secret_masking`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from pathlib import Path

from catchment.content.passwords import (
    ACCENTED_HINTS,
    ACCENTED_NAMES,
    FOREIGN_HINTS,
    FOREIGN_NAMES,
    end_of_value,
    is_chosen,
    passwords_below,
)
from catchment.content.secret_checks import (
    IN_BASE58,
    has_base58_check,
    has_bech32_check,
    is_argument,
    is_authorization,
    is_credential,
    is_in_address,
    is_key,
    is_named,
    is_named_key,
    is_named_password,
    is_named_secret,
    is_no_filler,
    is_no_name,
    is_of_a_database,
    is_private_member,
    is_random_match,
    span,
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
    """The whole text in lower case; the pattern applies to it, too, and begins with a literal word."""
    FOREIGN_NAME = auto()
    """The same in text that is not English."""
    ACCENTED_NAME = auto()
    """The same in text with letters outside ASCII, which each hint has."""


@dataclass(frozen=True)
class SecretRule:
    """A kind of secret. The secret is the last named group of the shape that matches, or the whole match without groups.

    `hints`: at least one occurs in or before each secret. `holds`: returns whether a match is a secret.
    """

    name: str
    hints: tuple[str, ...]
    shape: str
    holds: Callable[[re.Match[str], str], bool] = is_no_filler
    scope: Scope = Scope.WORD

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled shape; most rules are never needed."""
        return re.compile(self.shape)

    def secrets(self, searched: str, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each secret. `searched` is the text, or its lower-case form for names."""
        return (span(match) for match in self.pattern.finditer(searched) if self.holds(match, text))


@dataclass(frozen=True)
class PasswordRule(SecretRule):
    """A rule for passwords that are assigned to a name, and for those in a table below it."""

    words: str = ""

    @cached_property
    def names(self) -> re.Pattern[str]:
        """The names alone."""
        return re.compile(self.words)

    def secrets(self, searched: str, text: str) -> Iterator[tuple[int, int]]:
        end_of_line = end = 0
        for match in self.pattern.finditer(searched):
            if match.start() < end:
                continue
            start, stop = match.span("whole")
            is_value = start >= 0 and not match["suffix"].strip("0123456789_")
            last = end_of_value(text, start, stop) if is_value else stop
            if is_value and (is_chosen(text[start:stop]) or is_chosen(text[start:last])):
                yield start, last
                end = last
            elif match.lastgroup not in {None, "whole"} and self.holds(match, text):
                yield span(match)
            if match.lastgroup in {None, "cell", "argument"} and match.start() >= end_of_line:
                stop = searched.find("\n", match.start())
                end_of_line = stop if stop >= 0 else len(searched)
                end, passwords = passwords_below(self.names, match.start(), searched, text)
                yield from passwords


# Shapes are regular expressions with %a: letter or digit, %w: also - and _, %b: also + and /, %h: lower hexadecimal,
# %u: capital or digit, %l: small letter or digit, %i: UUID. %n: a token is not made of words, as names are.
_MACROS = {
    "%a": "[A-Za-z0-9]",
    "%w": "[A-Za-z0-9_-]",
    "%b": "[A-Za-z0-9+/]",
    "%h": "[a-f0-9]",
    "%u": "[A-Z0-9]",
    "%l": "[a-z0-9]",
    "%i": "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    "%n": "",
}

_LETTER_OR_DIGIT = "[A-Za-z0-9]"
_ESCAPES = (
    r"\\[a-z0-9]|\[[mK]",
    r"%[\dA-Fa-f]{2}|=3D|[\[;]\dm",
    r"\\x[\dA-Fa-f]{2}|[\[;]\d\dm",
    r";\d\d\dm",
    r"\\u[\dA-Fa-f]{4}",
)
"""Escapes of code, addresses, mail and coloured logs that end with a letter or a digit, by their length."""
_FIRST = re.compile(r"(?:\w|\[[^]]*\])(?:\{\d+\})?(?![?*+{])")
_LITERAL = r"(?:[\w:-]|\\\.)"
_NEXT = re.compile(rf"{_LITERAL}{{1,20}}(?![?*+{{])")
_ALTERNATIVES = re.compile(rf"\(\?:((?:\w{_LITERAL}+\|)+\w{_LITERAL}+)\)")


def _expanded(shape: str) -> str:
    for macro, meaning in _MACROS.items():
        shape = shape.replace(macro, meaning)
    return shape


def _bounded(shape: str) -> str:
    """Return a pattern for a shape that is not part of a longer word; `__` marks bold text and bounds words.

    The start is asserted after the first characters, because a search that starts with characters is quick.
    """
    if words := _ALTERNATIVES.match(shape):
        firsts, ends = zip(*((word[0], word[1:]) for word in words[1].split("|")), strict=True)
        start, following = f"[{''.join(firsts)}]", f"(?={'|'.join(ends)})"
        rest = f"(?:{'|'.join(map('(?<={}){}'.format, firsts, ends))}){shape[words.end() :]}"
    else:
        first = _FIRST.match(shape)
        start, rest = (first[0], shape[first.end() :]) if first else ("", shape)
        following = f"(?={literal[0]})" if (literal := _NEXT.match(rest)) else ""
    after = "" if shape.endswith("=") else f"(?!_?{_LETTER_OR_DIGIT})"
    escaped = "|".join(f"(?<=(?:{escape}){start})" for escape in _ESCAPES)
    boundary = f"(?:(?<!{_LETTER_OR_DIGIT}{start})(?<!{_LETTER_OR_DIGIT}_{start})|{escaped})"
    return f"{start}{following}{boundary}(?<!sha(?:256|384|512)[=-]{start}){rest}{after}"  # a digest is random, too


def _token(row: str) -> SecretRule:
    name, hints, shape = re.split(r" {2,}", row, maxsplit=2)
    return _checked(name, hints, shape, is_no_name if "%n" in shape else is_no_filler)


def _checked(name: str, hints: str, shape: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a token that is checked, too. A hint starts the token, or is inside it behind `*`."""
    scope = Scope.WORD if hints.startswith("*") else Scope.START
    return SecretRule(name, tuple(hints.replace("*", "").split()), _bounded(_expanded(shape)), holds, scope)


_GAP = r"[^A-Za-z0-9+/=-]{1,20}+(?:(?<=\n)-)?"
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
        first.format(f"(?P<kind>{kind})")
        + f"(?:(?P<secret>(?>(?:[^-]++|-(?!{dashes[1:]})){{1,10000}}))-?{last.format('(?P=kind)')}|(?P<lines>{_KEY_LINES}))",
        is_key,
        Scope.TEXT,
    )


_PURPOSE = (
    r"(?>(?:[ \t](?:\((?:[^\s()]{1,16}[ \t]?){1,3}\)"
    r"|(?:for|für|pour|para|per|voor|of|de|du|del|da|do|wi-?fi|wlan)(?:[ \t][\w-]{1,16}){0,2})(?=[ \t]?[:=]))?)"
)
"""The purpose of a password, between its name and the sign."""
_WHOLE = (
    r"(?:(?=[\"'`]?(?P<whole>(?<=\")[!#-~]{8,64}+(?=\")|(?<=')[!-&(-~]{8,64}+(?=')|(?![\"'`])[!-~]{8,64}?"
    r"(?=[*_]{0,2}[,;]?(?:[ \t]*(?:[\r\n]|\Z)|[ \t]+(?:[#(|]|//))|<(?:/|br)|\\[nrt])))|)"
)
"""The value up to the end of the quotes or of the line, with any symbols."""
_VALUE = (
    rf"{_WHOLE}"
    r"(?:\\{0,3}[bru@]?(?:\"(?P<double>[^\s\"'`]{4,1000}+)\"|'(?P<single>[^\s\"'`]{4,1000}+)'|`(?P<ticked>[^\s\"'`]{4,1000}+)`)"
    r"|[\"'`]?(?P<groups>[a-z0-9]{4}(?:[ -][a-z0-9]{4}){3,5})(?=[\"'`]|[ \t]*(?:[#;,\r\n]|\Z))"
    r"|(?P<bare>[^\s\"'`,;<>()\[\]{}|&]{4,1000}+)(?=[\s,;\"'`<)\]}|&]|\Z)|[\"'`]?(?P=whole))"
)
_SPACE = "[ \\t\xa0\u202f]"
_ASSIGNED = (
    r"(?P<suffix>[\w-]{0,24}+)[\\\"'`\]*]{0,5}"
    rf"(?:(?:{_PURPOSE}{_SPACE}{{0,8}}(?::[ \t]?[a-z][\w.]{{0,20}}[ \t]=|:=|=>|[:=]{{1,3}}|：)[*_]{{0,2}}"
    r"|[\s,]{1,40}+[\"']?value[\"']?[:=])"
    rf"{_SPACE}{{0,8}}(?:[*_]{{1,2}}(?=[^\s*_]+[*_]))?{_VALUE}"
    r"|[ \t]{0,3},[ \t]{0,3}[\"'](?P<argument>[^\s\"'`]{4,200}+)[\"']"
    r"|(?:[ \t][^<>\n]{1,100}+)?>(?:<!\[cdata\[)?(?P<element>[^\s<>\]]{4,200}+)(?:\]\]>)?</"
    r"|[ \t]{1,20}\|[ \t]{1,20}[`*]{0,2}(?P<cell>[^\s|`]{4,200}+)`?[ \t]{0,20}(?:[|\r\n]|\Z)"
    r"|[ \t][\"']?(?P<option>[^\s\"'`,;<>()\[\]{}|&]{4,200}+)(?=[\s\"'`]|\Z))"
)
_HEADER = r"[\w -]{0,8}+[\"'*`]{0,3}[ \t]{0,20}(?=[|,;\t\r\n]|\Z)"


def _after(name: str, hints: str, shape: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a secret that follows certain words; the shape applies to lower-case text."""
    return SecretRule(name, tuple(hints.split(",")), shape, holds, Scope.NAME)


def _assigned(name: str, hints: str, words: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a value that is assigned to one of these names."""
    return _after(name, hints, words + _ASSIGNED, holds)


def _password(words: str, *hints: str, scope: Scope = Scope.NAME) -> SecretRule:
    """Return a rule for a value that is assigned to one of these names of passwords, or in a table below it."""
    return PasswordRule("password", hints, f"(?:{words})(?:{_ASSIGNED}|{_HEADER})", is_named_password, scope, words)


RULES: tuple[SecretRule, ...] = (
    _private_key(
        "-----BEGIN {}-----",
        r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1",
        "PRIVATE KEY",
        "V1-----",
    ),
    _private_key("---- BEGIN {} ----", r"SSH2 (?:ENCRYPTED )?PRIVATE KEY", "PRIVATE KEY"),
    SecretRule(
        "private key",
        ("Private-Lines:",),
        r"Private-Lines: [0-9]{1,4}\r?\n(?P<secret>(?:[A-Za-z0-9+/=]{1,200}\r?(?:\n|\Z)){1,1000})",
        lambda _match, _text: True,
        Scope.TEXT,
    ),
    SecretRule(
        "private key",
        ('"kty',),
        r"[\"'](?:[dk]|[dq]?p|d?q|qi)\\?[\"'][ \t]{0,3}:\s{0,9}\\?[\"'](?P<secret>[A-Za-z0-9_-]{16,1400}+)",
        is_private_member,
        Scope.TEXT,
    ),
    *map(_token, Path(__file__).with_name("token_formats.txt").read_text("ascii").splitlines()[1:]),
    _checked(
        "Bitcoin key",
        "5H 5J 5K 6P Kw Kx Ky Kz L1 L2 L3 L4 L5",
        f"[56KL][1-5HJKPw-z][{IN_BASE58}]{{49,56}}",
        has_base58_check,
    ),
    _checked("Bitcoin extended key", "*prv", f"[xyztuv]prv[{IN_BASE58}]{{107,108}}", has_base58_check),
    _checked("Tezos key", "edsk", f"edsk[{IN_BASE58}]{{50,94}}", has_base58_check),
    _checked("Nostr key", "nsec1", "nsec1[02-9ac-hj-np-z]{58}", has_bech32_check),
    SecretRule(
        "password",
        ("://",),
        r"://[A-Za-z0-9._%+;-]{0,64}+:(?P<secret>[^\s/@:\"'<>]{3,128}+)@(?=[A-Za-z0-9\[])",
        is_in_address,
        Scope.TEXT,
    ),
    SecretRule(
        "password",
        ("WIFI:",),
        r"WIFI:(?:[A-Z]{1,3}:(?>(?:\\.|[^;\\\n]){0,128});){0,6}?P:\"?(?P<secret>(?:\\.|[^;\\\n\"]){4,128})",
        is_credential,
        Scope.TEXT,
    ),
    SecretRule(
        "password",
        (":*:", ":543"),
        r":(?:\d{4,5}|\*):[^\s:]{1,64}+:[^\s:]{1,64}+:(?P<secret>(?>(?:\\.|[^\s:\\]){4,128}))(?=\s|\Z)",
        is_of_a_database,
        Scope.TEXT,
    ),
    SecretRule(
        "AWS secret key",
        ("«AWS key id»",),
        r"«AWS key id»[\"',;| \t]{1,5}(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        is_no_filler,
        Scope.TEXT,
    ),
    _after(
        "AWS secret key",
        "aws",
        r"aws.{0,20}?(?:secret|key).{0,20}?[=:]\s{0,3}[\"']?(?P<secret>[a-z0-9/+]{40})(?![a-z0-9/+=])",
        is_random_match,
    ),
    _after(
        "authorization",
        "auth",
        r"auth(?:(?:orization|-token)[\"'\]]{0,3}(?:[ \t]{0,3}[:=,]|[ \t]{1,3}(?=[\"'])|[\s,]{1,40}[\"']value[\"'][ \t]{0,3}:)"
        r"[ \t]{0,3}[\"'`]?(?:(?:bearer|token|apikey|bot|digest)[ \t]{1,3}"
        r"(?P<secret>[a-z0-9._~+/=-]{16,2000}+)|basic[ \t]{1,3}(?P<login>[a-z0-9+/]{8,400}+={0,2})"
        r"|(?:[a-z][\w-]{1,30}+[ \t]{1,3})?(?P<random>[a-z0-9._~+/=-]{16,2000}+))"
        r"|(?P<quote>\\?[\"'])?[ \t]{0,3}[:=][ \t]{0,3}\\?[\"']?(?P<pair>[a-z0-9+/]{8,400}+={0,2}))",
        is_authorization,
    ),
    _after(
        "password",
        " -",
        r"-(?<= -)(?:(?P<login>u|a|-user|-proxy-user|-auth)[ =](?P<quote>[\"'])?[^\s:%\"'$]{1,60}[:%]"
        r"|(?P<option>p[ =]?|[aw] )[\"']?"
        r"|(?P<batch>[cdmsn]{0,3}b[a-z0-9]{0,3} )[^\n|;&<>]{1,120} [\"']?)"
        r"(?P<secret>(?<=\")[^\s\"]{4,128}+(?=\")|(?<=')[^\s']{4,128}+(?=')|(?(quote)[^\s\"']{4,128}+|[^\s\"'`|;&<>()]{4,128}+))",
        is_argument,
    ),
    _after(
        "password",
        "\\\\",
        r"net user? [^\n]{1,120}?"
        r"(?:/user:\S{1,60} (?P<last>[^\s/]\S{3,127}+)|[^\s:] (?P<secret>[^\s/]{4,128}+) +/(?:user:|add))",
        is_credential,
    ),
    _after(
        "password",
        "identified",
        r"identified(?: with [\w\"'`]{1,60})? by (?:password )?[\"'](?P<secret>[^\"'\n]{4,128}+)[\"']",
        is_credential,
    ),
    _password(
        r"pass(?:wor[dt]|wd|phrase|code|ord|e(?<=mot.de.passe)|e(?<=motdepasse)|e(?<=palavra.passe)|(?<![a-z]pass)|(?<=requirepass)"
        r"|(?=[\"']?[ \t]{0,3}=)(?<!com.{4})(?<!by.{4})(?<!ender.{4})(?<!sur.{4})(?<!res.{4}))",
        "pass",
    ),
    _password(
        r"pw(?:d|(?![a-z])(?:(?<=[_-]pw)|(?<=dbpw)|(?<=bindpw|rootpw|userpw)|(?<![a-z0-9+/]pw)(?=[\"']?[ \t]{0,3}[:=])))",
        "pw",
    ),
    _password(r"psk(?<![a-z!+:]psk)(?!:!)", "psk"),
    _password(ACCENTED_NAMES, *ACCENTED_HINTS, scope=Scope.ACCENTED_NAME),
    _password(FOREIGN_NAMES, *FOREIGN_HINTS, scope=Scope.FOREIGN_NAME),
    _assigned("secret", "secret", r"secret(?!smanager)", is_named_secret),
    _assigned("secret", "token", r"token", is_named),
    SecretRule("secret", ("_PAT",), rf"PAT(?<=_PAT)(?![A-Z0-9]){_ASSIGNED}", is_named, Scope.TEXT),
    _assigned("secret", "key", r"key", is_named_key),
)
"""All rules in the order in which they are applied, beginning with rules for tokens of one issuer."""
