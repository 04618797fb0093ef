"""Record the settings in docs/settings.md: `python -m tests.golden.settings`; read the diff."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from catchment.settings import SettingRow, SourceSettings
from catchment.telemetry.incidents import ReasonCode
from connectors import connector_class, kinds
from deployments.health.announcing import AlertSettings, MailSettings

PAGE: Final = Path(__file__).parents[2] / "docs" / "settings.md"
_HEAD: Final = "| setting | default | meaning |\n|---|---|---|\n"


def page() -> str:
    """Return docs/settings.md as it should be: its text, with tables that are made from the code."""
    models = {kind: connector_class(kind).settings for kind in kinds()}
    tables = {
        "all": _table(row for row in _common() if "." not in row.key),
        "kinds": _defaults(),
        "mail": _fields(MailSettings, "mail."),
        "alerts": _fields(AlertSettings, ""),
    }
    for kind, model in models.items():
        tables[kind] = _table(row for row in model.model_construct().rows() if not _is_common(row))
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
        text, found = place.subn(lambda _, table=table: table, text)
        if found != 1:
            raise ValueError(f"docs/settings.md has {found} places for {name}")
    return text


def _common() -> list[SettingRow]:
    return [row for row in connector_class("web").settings.model_construct().rows() if _is_common(row)]


def _is_common(row: SettingRow) -> bool:
    return row.key.partition(".")[0] in SourceSettings.model_fields


def _table(rows: Iterable[SettingRow]) -> str:
    return _HEAD + "".join(
        f"| `{row.key}`{' (fixed)' if row.is_fixed else ''} | {_value(row.value)} | {_cell(row.meaning)} |\n"
        for row in rows
    )


def _fields(model: type[BaseModel], prefix: str) -> str:
    def row(name: str, field: FieldInfo) -> str:
        default = "required" if field.is_required() else _value(field.default)
        return f"| `{prefix}{field.alias or name}` | {default} | {_cell(field.description)} |\n"

    return _HEAD + "".join(row(name, field) for name, field in model.model_fields.items() if field.description)


def _defaults() -> str:
    """Return a table of the settings whose default depends on the kind."""
    policies = [
        (policy := connector_class(kind).policy).model_dump() | {"resources": {"at_once": policy.at_once}}
        for kind in kinds()
    ]

    def row(setting: SettingRow) -> str:
        group, _, name = setting.key.partition(".")
        values = " | ".join(_value(policy[group][name]) for policy in policies)
        return f"| `{setting.key}` | {values} | {_cell(setting.meaning)} |\n"

    head = f"| setting | {' | '.join(kinds())} | meaning |\n|---{'|---' * len(policies)}|---|\n"
    return head + "".join(row(setting) for setting in _common() if "." in setting.key)


def _cell(text: str | None) -> str:
    if not text:
        raise ValueError("a setting without a description")
    return text.replace("|", "\\|").replace("*", "\\*")


def _value(value: Any) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        if value == tuple(ReasonCode):
            return "all"
        return ", ".join(map(_value, value))
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
