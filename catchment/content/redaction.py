"""Redaction of text that leaves the library: removes secrets, addresses and paths."""

from __future__ import annotations

import re

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        "<secret>",
    ),
    (
        re.compile(
            r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}"
            r"|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
        ),
        "<secret>",
    ),
    (
        re.compile(
            r"(?i)(?<![a-z0-9])(password|passwd|secret|token|api[_-]?key|authorization)([\"']?\s*[=:]\s*[\"']?)"
            r"(?:bearer\s+|basic\s+)?(?:(?![,;'\"](?:\s|\Z)|['\"][,;)\]}:]|[,;][\"']?[\w.-]+[\"']?\s*[=:])\S)+"
        ),
        r"\1\2<secret>",
    ),
    (re.compile(r"(?<![a-z0-9+.-])([a-z0-9+.-]+://)[^\s/@]+@"), r"\1<login>@"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"), "<address>"),
    (re.compile(r"([\"'])(?:~|[A-Za-z]:)?[\\/][^\"'\n]*[\\/][^\"'\n]*\1"), r"\1<path>\1"),
    (re.compile(r"(?<![\w/<.])(?:~|[A-Za-z]:)?[\\/](?:[^\s:'\"<>|*?\\/]+[\\/])+[^\s:'\"<>|*?]*"), "<path>"),
)
_LONGEST = 500
_READ = 10_000


def redact(text: str) -> str:
    """Return `text` on one line with secrets, addresses and paths replaced, truncated to 500 characters."""
    if len(text) > _READ:  # the cut may split a secret, which would no longer match; drop the last word
        text = " ".join(text[:_READ].split()[:-1])
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
