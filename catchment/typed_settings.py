"""Settings as an operator types them, on the command line or in a form: `key=value`, with a YAML value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catchment.errors import BadInput


def settings(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse `key=value` settings. Values are YAML; a dotted key addresses a nested setting ("limits.max_mb=20")."""
    result: dict[str, Any] = {}
    for key, text in map(pair, assignments):
        value = _value(key, text) if text else ""
        *path, leaf = key.split(".")
        inner = result
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise BadInput(f"{key}: set twice, as a value and as a group; keep one")
        if leaf in inner:
            raise BadInput(f"{key}: set twice; keep one")
        inner[leaf] = value
    return result


def pair(text: str) -> tuple[str, str]:
    """Return the key and the text of `key=value`. Raises BadInput."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise BadInput(f"{key!r}: value missing; write key=value")
    return key.strip(), value


def _value(key: str, text: str) -> Any:
    """Parse a value as YAML, but take leading signs such as * and ! literally: patterns start with them."""
    import yaml

    class Plain(yaml.SafeLoader):
        fetch_alias = fetch_anchor = fetch_tag = fetch_directive = yaml.SafeLoader.fetch_plain

        def check_plain(self) -> bool:
            return self.peek() in "%@`" or bool(super().check_plain())

    try:
        return yaml.load(text, Plain)
    except (yaml.YAMLError, ValueError, RecursionError):
        # PyYAML raises ValueError for a date such as 2026-02-30.
        raise BadInput(f"{key}: not valid YAML; quote the value: --set '{key}=\"…\"'") from None
