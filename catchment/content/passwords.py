"""Tell a password that a person chose from a placeholder, a reference, a type or a label beside the word `password`."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"\A[x.?_#-]+\Z|\*\*\*|\.\.\.|…|[«»]|xxxx"
    r"|(?:\A|[^a-z])(?:example|placeholder|change.?(?:me|it|this)|your|my|dummy|tests?|fake|sample|redacted|hidden|todo"
    r"|none|null|true|false|optional|required|default)(?:[^a-z]|\Z)"
    r"|\A[0-9]{1,5}\Z|\A(?:u?int|float|[uifx]|utf-?|sha|md|base|oauth|aes|ed|scram-sha-)[0-9]{1,5}\Z",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"\A[$~./\\!@&%:=]|\$[\w{(]|%[(\w]|\{\w*\}|\{\{|\A(?:<.*>|\{.*\}|\(.*\)|[A-Za-z]:\\.*|\w+(?:\.[A-Za-z_]\w*)+|.*:[0-9]{1,5})\Z"
    r"|://|\w[(\[]|(?:/[\w.-]+){2}|\A(?:env|file|keyring|block|vault|op|arn|ref)[:+]",
    re.IGNORECASE,
)
_WORD_OF_A_NAME = re.compile(r"pass|pwd|secret|token|user|login|field|crypt", re.IGNORECASE)
_STRONG = re.compile(r"(?=.*[A-Z])(?=.*[0-9])(?=.*[^\w-])")
_LABEL = re.compile(
    r"[^\W\d_]{1,5}|[A-Z][^\W\d_]+|(?i:foobar|letmein|monkey|welcome|string|number|boolean|object|varchar|header)"
)
_NAME = re.compile(r"[^\W\d]+(?:[-.:/][^\W\d]+)*[-.:/]?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=\Z")
_END_OF_LINE = re.compile(r"[*_]{0,2}[ \t]*(?:[#;\r\n]|//|\Z)")


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a secret: a placeholder, or a reference to the place of the secret."""
    return bool(_PLACEHOLDER.search(value) or _REFERENCE.search(value))


def is_password(value: str) -> bool:
    """Return whether a value is a password, not a placeholder, a reference, a name or a label."""
    is_name = _WORD_OF_A_NAME.search(value) and not _STRONG.match(value)
    return not (is_name or is_placeholder(value) or _LABEL.fullmatch(value))


def is_assigned_password(match: re.Match[str], text: str) -> bool:
    """Return whether the value that a match assigns to a name is a password. `suffix` follows the word in the name."""
    start, stop = match.span(match.lastgroup or 0)
    value = text[start:stop]
    if match["suffix"].strip("0123456789_") or not is_password(value):
        return False
    if match.lastgroup in {"double", "single"}:
        return True
    if match.lastgroup == "bare":
        is_assignment = text[start - 1] == "="
        if is_assignment and text.startswith((",", ")"), stop):  # an argument in code
            return False
        if not is_assignment and not _END_OF_LINE.match(text, stop):  # a sentence or an expression
            return False
    return bool(_VARIABLE.search(text, max(0, start - 60), start)) or not _NAME.fullmatch(value)
