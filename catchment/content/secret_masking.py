"""Secrets in content: what looks like a password, a token or a key is replaced before anything of it is kept.

A rule says how the secrets of one issuer look. A rule that can err looks for a name in front of a value and asks how random
the value is. What is masked is counted; what it was is nowhere.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from catchment.model import Document

_DEEPEST = 50
_WARNING = "secrets were masked: "


class SecretRule(NamedTuple):
    """What a secret is called, what is always in or before one, and how it looks; its group `secret`, or all of it, goes.

    `alone`: the hint and the secret stand in one long word. That is looked for first: it costs a third, and few texts have any.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[re.Match[str]], bool] | None = None
    alone: bool = True


def masked(document: Document) -> Document:
    """The document without the secrets in it, and a warning that counts them; itself where there are none."""
    found: Counter[str] = Counter()
    cleaned = replace(
        document,
        text=mask(document.text, found),
        title=document.title and mask(document.title, found),
        author=document.author and mask(document.author, found),
        properties=_inside(document.properties, found, 0),
    )
    if not found:
        return document
    kinds = ", ".join(f"{count} × {name}" for name, count in sorted(found.items()))
    return replace(cleaned, warnings=(*document.warnings, f"{_WARNING}{kinds}"))


def tells_of_secrets(document: Document) -> bool:
    """Whether secrets were masked in a document."""
    return any(warning.startswith(_WARNING) for warning in document.warnings)


def mask(text: str, found: Counter[str] | None = None) -> str:
    """The text without secrets; those that were there are counted by what they are called. Linear in the text's length."""
    found = Counter() if found is None else found
    for rule in _suspected(text):

        def hidden(match: re.Match[str], rule: SecretRule = rule) -> str:
            group = "secret" if "secret" in match.groupdict() else 0
            if rule.holds is not None and not rule.holds(match):
                return match[0]
            found[rule.name] += 1
            start, end = match.start(group) - match.start(), match.end(group) - match.start()
            return f"{match[0][:start]}«{rule.name}»{match[0][end:]}"

        text = rule.pattern.sub(hidden, text)
    return text


def _suspected(text: str) -> list[SecretRule]:
    """The rules whose hints are in a text, in their order."""
    lower = text.lower()
    long_words = " ".join([word for word in lower.split() if len(word) >= _LEAST_LENGTH])
    numbers = {number for hint, number in _APART if hint in lower}
    if long_words:
        numbers.update([number for hint, number in _ALONE if hint in long_words])
    return [RULES[number] for number in sorted(numbers)]


def _inside(value: Any, found: Counter[str], depth: int) -> Any:
    """The same for every text in what frontmatter holds; a name and its value are looked at together."""
    if isinstance(value, str):
        return mask(value, found)
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {key: _named(key, inner, found, depth) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_inside(inner, found, depth + 1) for inner in value]
    return value


def _named(key: Any, value: Any, found: Counter[str], depth: int) -> Any:
    if isinstance(value, str) and isinstance(key, str):
        before = f'{key}: "'
        return mask(f'{before}{value}"', found)[len(before) : -1]
    return _inside(value, found, depth + 1)


def _is_random(match: re.Match[str]) -> bool:
    """Whether a value looks drawn by lot, and is not a word, a path, a name in code or a place for one."""
    value = match["secret"]
    if _PLACE.search(value) or not (_LETTER.search(value) and _DIGIT.search(value)):
        return False
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy >= _LEAST_ENTROPY


def _is_named(match: re.Match[str]) -> bool:
    """Whether a value that looks drawn by lot has the name of a secret."""
    return _NAME.search(match.string, max(0, match.start() - 60), match.start()) is not None and _is_random(match)


def _is_no_place(match: re.Match[str]) -> bool:
    """Whether a password in an address is one, and not a place for it."""
    value = match["secret"]
    return not _PLACE.search(value) and value.lower() not in _EVERYBODYS


_NAME = re.compile(
    r"(?:password|passwd|secret|token|api[_-]?key|access_key|private_key|auth_key)(?:[_-][\w-]{0,20})?[\"']?\s{0,3}:?\Z",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"[<>{}$%*…\s]|\.\.\.|xxx|example|placeholder|change.?me|your|dummy|test|fake|sample|redacted|\A[a-z]+[_.-]?[0-9]{0,2}\Z"
    r"|0123|1234|abcd|[()]|://|\A[\w-]+(?:\.[A-Za-z_]\w*)+\Z",
    re.IGNORECASE,
)
_LETTER, _DIGIT = re.compile(r"[A-Za-z]"), re.compile(r"[0-9]")
_LEAST_ENTROPY = 3.5
_LEAST_LENGTH = 16
"""Of a word with a secret in it."""
_LEAST_KEY = 60
_EVERYBODYS = frozenset(
    {"password", "pass", "passwd", "pwd", "secret", "user", "postgres", "root", "admin", "token", "guest"}
)

_BEFORE, _AFTER = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"


def _token(name: str, hint: str, pattern: str) -> SecretRule:
    """A token that begins with what only its issuer writes."""
    return SecretRule(name, (hint.lower(),), re.compile(f"{_BEFORE}{pattern}{_AFTER}"))


def _private_key(first: str, kind: str, *hints: str) -> SecretRule:
    """What stands between the first line of a key, with its kind in place of {}, and the last one, or the end of the text."""
    dashes = first.partition("BEGIN")[0].strip()
    last = first.replace("BEGIN", "END")
    return SecretRule(
        "private key",
        hints,
        re.compile(
            first.format(f"(?P<kind>{kind})")
            + f"(?P<secret>(?>(?:[^-]++|-(?!{dashes[1:]})){{1,10000}}))"
            + f"(?:{last.format('(?P=kind)')}|\\Z)"
        ),
        lambda match: len(match["secret"]) >= _LEAST_KEY,
        alone=False,
    )


RULES: tuple[SecretRule, ...] = (
    _private_key(
        "-----BEGIN {}-----", r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?", "private key-----", "private key block-----"
    ),
    _private_key("---- BEGIN {} ----", r"SSH2 (?:ENCRYPTED )?PRIVATE KEY", "private key ----"),
    SecretRule(
        "private key",
        ("private-lines:",),
        re.compile(r"Private-Lines: [0-9]{1,4}\r?\n(?P<secret>(?:[A-Za-z0-9+/=]{1,200}\r?(?:\n|\Z)){1,1000})"),
        alone=False,
    ),
    SecretRule(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        re.compile(f"{_BEFORE}gh[pousr]_[A-Za-z0-9]{{36,255}}{_AFTER}"),
    ),
    _token("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _token("GitLab token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,64}"),
    SecretRule(
        "AWS key id",
        ("akia", "asia"),
        re.compile(f"{_BEFORE}(?:AKIA|ASIA)(?![A-Z0-9]{{9}}EXAMPLE)[A-Z0-9]{{16}}{_AFTER}"),
    ),
    SecretRule(
        "AWS secret key",
        ("aws",),
        re.compile(
            r"(?i)aws.{0,20}?(?:secret|key).{0,20}?[=:]\s{0,3}[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
        _is_random,
        alone=False,
    ),
    _token("Slack token", "xox", r"xox[abeoprs]-[0-9]{6,15}-[A-Za-z0-9-]{10,200}"),
    SecretRule(
        "Slack webhook",
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/services/(?P<secret>T[A-Z0-9]{6,12}/B[A-Z0-9]{6,12}/[A-Za-z0-9]{20,30})"),
    ),
    _token("Stripe key", "_live_", r"[sr]k_live_[A-Za-z0-9]{20,120}"),
    _token("Anthropic key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{40,200}"),
    _token("OpenAI key", "sk-", r"sk-(?:proj-|svcacct-)?(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{40,200}"),
    _token("Google key", "aiza", r"AIza[A-Za-z0-9_-]{35}"),
    _token("Google secret", "gocspx-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _token("Google token", "ya29.", r"ya29\.[A-Za-z0-9_-]{30,400}"),
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("PyPI token", "pypi-age", r"pypi-AgE[A-Za-z0-9_-]{50,400}"),
    _token("SendGrid key", "sg.", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _token("DigitalOcean token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _token("Vault token", "hvs.", r"hvs\.[A-Za-z0-9_-]{24,200}"),
    _token("Databricks token", "dapi", r"dapi[a-f0-9]{32}"),
    _token("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{34,40}"),
    _token("Shopify token", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _token("Telegram token", ":aa", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _token("age key", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    SecretRule(
        "Azure key",
        ("accountkey=", "sharedaccesskey="),
        re.compile(r"(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{42,86}={1,2})"),
    ),
    _token("JSON web token", "eyj", r"eyJ[A-Za-z0-9_-]{10,2000}+\.eyJ[A-Za-z0-9_-]{10,4000}+\.[A-Za-z0-9_-]{16,1000}+"),
    SecretRule(
        "password",
        ("://",),
        re.compile(r"://[A-Za-z0-9._%+-]{1,64}+:(?P<secret>[^\s/@:\"'<>]{3,128}+)@(?=[A-Za-z0-9\[])"),
        _is_no_place,
        alone=False,
    ),
    SecretRule(
        "secret",
        (
            "password",
            "passwd",
            "secret",
            "token",
            "apikey",
            "api_key",
            "api-key",
            "access_key",
            "private_key",
            "auth_key",
        ),
        re.compile(r"[:=]>?\s{0,3}[\"'](?P<secret>[^\"'\n]{16,200})[\"']"),
        _is_named,
        alone=False,
    ),
    SecretRule(
        "secret",
        ("password=", "passwd=", "secret=", "token=", "_key=", "apikey="),
        re.compile(
            r"(?m)^(?:export )?[A-Z0-9_]{0,40}(?:PASSWORD|PASSWD|SECRET|TOKEN|_KEY|APIKEY)=(?P<secret>[^\s\"'#]{12,200})[ \t]*$"
        ),
        _is_random,
    ),
)
"""In the order in which they are looked for: those that know their issuer first."""
_ALONE = [(hint, number) for number, rule in enumerate(RULES) if rule.alone for hint in rule.hints]
_APART = [(hint, number) for number, rule in enumerate(RULES) if not rule.alone for hint in rule.hints]
