"""Checks whether the match of a rule is a secret, by its randomness, its checksum or the words around it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
from collections import Counter

from catchment.content.passwords import (
    is_assigned_password,
    is_directive,
    is_foreign,
    is_in_row,
    is_mixed,
    is_password,
    is_placeholder,
    is_symbolic_password,
)

LEAST_LENGTH = 16
"""The minimum length of a word that contains a secret."""
_PLACEHOLDER = re.compile(
    r"[<>«»{}$%*…\s]|\.\.\.|xxx|example|placeholder|change.?me|your|dummy|test|fake|sample|redacted|\A[a-z]+[_.-]?[0-9]{0,2}\Z"
    r"|0123|1234|abcd|[()]|://|\A[\w-]+(?:\.[A-Za-z_]\w*)+\Z",
    re.IGNORECASE,
)
"""Matches placeholders, names in code, URLs and sequences."""
_FILLER = re.compile(r"([^A])\1{9}|0123456789|abcdefgh|example|x{8}", re.IGNORECASE)
_NAME = re.compile(
    r"(?:[a-z]++[0-9]{0,2}+(?:[_.-]++|\Z))+|(?:[a-z]++_)?(?:[A-Z]?(?=[a-z]*[aeiouy])[a-z]{2,}+[_.-]*+)+[0-9]{0,2}"
)
_LETTER, _DIGIT = re.compile(r"[A-Za-z]"), re.compile(r"[0-9]")
_HEXADECIMAL = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
_WORDS = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_SEPARATED_WORD = re.compile(r"(?:\A|[-_./:+@#])[A-Za-z]?[a-z]{3,}(?:\Z|[-_./:+@#])")
_KEY_OF_A_SECRET = re.compile(
    r"(?:api|access|auth|private|secret|encryption|signing|master|shared|account|license|client|consumer|app(?:lication)?"
    r"|storage|subscription|session|jwt|hmac|aes|server|service|deploy|admin|integration|ingest|write)[_ .-]?\Z",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")
_PATH = re.compile(r"[/\\]")
_NETRC = re.compile(r"machine \S{1,100}\s{1,10}(?:login|user) \S{1,100}\s{1,10}\Z")
_OPTION = re.compile(r"(?:\A|\s)--?[\w-]{0,40}\Z")
_LINE = re.compile(r"(?<!\\)\n")
_HOST = re.compile(r"[ \t]*(?:[^\s:\\]|\\:){1,253}")
_END_OF_LINE = re.compile(r"[\"']?[ \t]*(?:[\r\n#]|\Z)")
_COMMANDS = {
    option: re.compile(rf"\b(?:{commands})", re.IGNORECASE)
    for option, commands in (
        ("p", "mysql|mariadb|sshpass|sqlcmd|7z|(?:un)?zip"),
        ("p ", "login|sshpass|mongo|psexec|sqlcmd|bcp|ipmitool|mosquitto_|cqlsh|(?:un)?zip"),
        ("p=", "login"),
        ("w ", "ldap[a-z]"),
        ("a ", "redis-cli"),
        ("batch", "htpasswd"),
        ("login", "curl |https? |xhs? |wget |smbclient |rpcclient "),
    )
}
"""Commands that take a password after an option, or a login with one."""
_LEAST_ENTROPY, _LEAST_HEXADECIMAL = 3.5, 2.8
_LEAST_KEY = 60
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{30}")
_LEAST_PASSWORD = 8
_COMMON_PASSWORDS = frozenset(
    {"password", "pass", "passwd", "pwd", "secret", "user", "postgres", "root", "admin", "token", "guest", "123"}
)


def span(match: re.Match[str]) -> tuple[int, int]:
    """Return start and end of the secret in a match: the last named group that matched, or the whole match."""
    return match.span(match.lastgroup or 0)


def _entropy(value: str) -> float:
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def is_no_filler(match: re.Match[str], _text: str) -> bool:
    """Return whether a token is not a placeholder."""
    start, stop = span(match)
    return not _FILLER.search(match.string, start, stop) and len(set(match.string[start:stop])) >= min(
        6, stop - start - 3
    )


def is_key(match: re.Match[str], text: str) -> bool:
    """Return whether the body of a private key has a line of base64."""
    start, stop = span(match)
    return stop - start >= _LEAST_KEY and _KEY_LINE.search(text, start, stop) is not None


def is_no_name(match: re.Match[str], text: str) -> bool:
    """Return whether a token is neither a placeholder nor a name made of words."""
    return not _NAME.fullmatch(match[0]) and is_no_filler(match, text)


def _is_random(value: str) -> bool:
    """Return whether a value looks random: not a word, a path, a name in code or a placeholder."""
    if len(value) < LEAST_LENGTH or not (_LETTER.search(value) and _DIGIT.search(value)) or _PLACEHOLDER.search(value):
        return False
    if _HEXADECIMAL.fullmatch(value):  # short hexadecimal values are mostly identifiers
        return len(value) >= 2 * LEAST_LENGTH and _entropy(value) >= _LEAST_HEXADECIMAL
    is_wordy = 2 * sum(map(len, _WORDS.findall(value))) > len(value) or _SEPARATED_WORD.search(value)
    return not is_wordy and _entropy(value) >= _LEAST_ENTROPY


def _is_mixed(value: str) -> bool:
    """Return whether letters, digits and symbols alternate in a short value, as in passwords."""
    return bool(is_mixed(value) and _DIGIT.search(value) and not _PLACEHOLDER.search(value) and not _PATH.search(value))


def is_random_match(match: re.Match[str], text: str) -> bool:
    start, stop = span(match)
    return _is_random(text[start:stop])


def is_named_password(match: re.Match[str], text: str) -> bool:
    start, stop = span(match)
    value = text[start:stop]
    if match.lastgroup == "cell" and not is_in_row(match, text):
        return False
    if match.lastgroup == "option":
        before = text[max(0, match.start() - 250) : match.start()]
        if _NETRC.search(before):
            return is_credential(match, text)
        if text[start - 1] == "'" or is_directive(text, start, stop):  # PASSWORD '…' of SQL
            return is_symbolic_password(value)
        if not _OPTION.search(before):
            return False
    is_mixed = _LEAST_PASSWORD <= len(value) <= 40 and _is_mixed(value)
    return not is_foreign(value) and (_is_random(value) or is_mixed or is_assigned_password(match, text))


def is_named_key(match: re.Match[str], text: str) -> bool:
    before = text[max(0, match.start() - 14) : match.start()]
    is_variable = text.startswith("KEY", match.start()) and before.endswith("_") and not before.endswith("PUBLIC_")
    return (is_variable or _KEY_OF_A_SECRET.search(before) is not None) and is_named(match, text)


def is_named(match: re.Match[str], text: str) -> bool:
    if match.lastgroup == "option" and not _OPTION.search(text, max(0, match.start() - 40), match.start()):
        return False
    if match.lastgroup == "cell" and not is_in_row(match, text):
        return False
    return is_random_match(match, text)


def is_named_secret(match: re.Match[str], text: str) -> bool:
    if match.lastgroup == "option":
        return is_named(match, text)
    start, stop = span(match)
    is_identifier = _HEXADECIMAL.fullmatch(text, start, stop)
    return is_named(match, text) or (not is_identifier and is_assigned_password(match, text))


def is_authorization(match: re.Match[str], text: str) -> bool:
    """Return whether a header has a token or a login, or a setting of npm or Docker has a login."""
    if match.lastgroup == "login":
        return _is_login(match, text)
    if match.lastgroup == "pair":
        return bool(match["quote"] or text.startswith("_", match.start() - 1)) and _is_login(match, text)
    if match.lastgroup == "random":
        return is_random_match(match, text)
    start, stop = span(match)
    return not (is_placeholder(text[start:stop]) or _NAME.fullmatch(text, start, stop))


def is_credential(match: re.Match[str], text: str) -> bool:
    """Return whether the value in an address, a command or a netrc file is a password."""
    start, stop = span(match)
    return is_password(text[start:stop])


def is_in_address(match: re.Match[str], text: str) -> bool:
    """Return whether the value in an address, in which symbols are escaped (RFC 3986), is a password."""
    start, stop = span(match)
    return is_password(_ESCAPED.sub("+", text[start:stop]))


def is_argument(match: re.Match[str], text: str) -> bool:
    """Return whether the command before an option takes a password there."""
    before = _LINE.split(text[max(0, match.start() - 250) : match.start()])[-1]
    option = match["option"] or ("batch" if match["batch"] else "login")
    return _COMMANDS[option].search(before) is not None and is_credential(match, text)


def is_of_a_database(match: re.Match[str], text: str) -> bool:
    """Return whether a match follows the host at the start of a line of a file `.pgpass`, and the line ends with it."""
    start, stop = span(match)
    before = text[max(0, match.start() - 300) : match.start()].rpartition("\n")[2]
    return (
        _HOST.fullmatch(before) is not None
        and _END_OF_LINE.match(text, stop) is not None
        and is_symbolic_password(text[start:stop])
    )


def is_private_member(match: re.Match[str], text: str) -> bool:
    """Return whether a match is a private member of a JSON Web Key (RFC 7518)."""
    start, stop = (
        text.rfind("{", max(0, match.start() - 6000), match.start()),
        text.find("}", match.end(), match.end() + 6000),
    )
    return start >= 0 and "kty" in text[start : stop if stop >= 0 else match.end()]


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
IN_BASE58 = "1-9A-HJ-NP-Za-km-z"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def has_base58_check(match: re.Match[str], _text: str) -> bool:
    """Return whether the last four bytes are the checksum of the others (Bitcoin's Base58Check)."""
    number = 0
    for letter in match[0]:
        number = number * 58 + _BASE58.index(letter)
    data = number.to_bytes(-(-number.bit_length() // 8), "big")
    return hashlib.sha256(hashlib.sha256(data[:-4]).digest()).digest()[:4] == data[-4:]


def has_bech32_check(match: re.Match[str], _text: str) -> bool:
    """Return whether the last six characters are the checksum of the others (BIP 173)."""
    prefix, _, body = match[0].lower().rpartition("1")
    values = [ord(letter) >> 5 for letter in prefix] + [0] + [ord(letter) & 31 for letter in prefix]
    check = 1
    for value in (*values, *map(_BECH32.index, body)):
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for number, generator in enumerate(_GENERATOR):
            check ^= generator if top >> number & 1 else 0
    return check == 1


def _is_login(match: re.Match[str], text: str) -> bool:
    """Return whether the base64 text of a header decodes to a name and a password (RFC 7617)."""
    start, stop = span(match)
    try:
        login = base64.b64decode(text[start:stop], validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in login and login.partition(":")[2].lower() not in _COMMON_PASSWORDS
