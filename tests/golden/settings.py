"""Record the settings in docs/settings.md, and the quality scale in docs/connectors.md.

`python -m tests.golden.settings`; read the diff.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from catchment.settings import SettingRow
from catchment.telemetry.incidents import ReasonCode
from connectors import connector_class, kinds
from connectors.contract.quality import RULES, QualityRule
from deployments.health.announcing import AlertSettings, MailSettings

PAGE: Final = Path(__file__).parents[2] / "docs" / "settings.md"
CONNECTORS: Final = PAGE.with_name("connectors.md")
_HEAD: Final = "| setting | default | meaning |\n|---|---|---|\n"


def page() -> str:
    """Return docs/settings.md as it should be: its text, with tables that are made from the code."""
    models = {kind: connector_class(kind).settings for kind in kinds()}
    tables = {
        "all": _table(row for row in _common("web") if not _is_of_kind(row.key)),
        "kinds": _defaults(),
        "manifests": _manifests(),
        "mail": _fields(MailSettings, "mail."),
        "alerts": _fields(AlertSettings, ""),
    }
    for kind, model in models.items():
        tables[kind] = _table(row for row in model.model_construct().rows() if not row.is_common)
    return _filled(PAGE, tables)


def connectors_page() -> str:
    """Return docs/connectors.md as it should be, with the tables of the quality scale."""
    return _filled(CONNECTORS, {"rules": _rules(), "exempt": _exemptions()})


def _filled(page: Path, tables: Mapping[str, str]) -> str:
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
        text, found = place.subn(lambda _, table=table: table, text)
        if found != 1:
            raise ValueError(f"{page.name} has {found} places for {name}")
    return text


def _common(kind: str) -> list[SettingRow]:
    return [row for row in connector_class(kind).settings.model_construct().rows() if row.is_common]


def _is_of_kind(key: str) -> bool:
    """Whether the default of a common setting depends on the kind."""
    return "." in key or len({row.value for kind in kinds() for row in _common(kind) if row.key == key}) > 1


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

    def value(kind: str, key: str) -> Any:
        policy = connector_class(kind).policy
        if "." not in key:
            return next(row.value for row in _common(kind) if row.key == key)
        group, _, name = key.partition(".")
        return getattr(policy if group == "resources" else getattr(policy, group), name)

    def line(row: SettingRow) -> str:
        values = " | ".join(_value(value(kind, row.key)) for kind in kinds())
        return f"| `{row.key}` | {values} | {_cell(row.meaning)} |\n"

    head = f"| setting | {' | '.join(kinds())} | meaning |\n|---{'|---' * len(kinds())}|---|\n"
    return head + "".join(line(row) for row in _common("web") if _is_of_kind(row.key))


def _manifests() -> str:
    """Return a table of the kinds."""
    head = "| kind | what | LOCATION | can be watched |\n|---|---|---|---|\n"
    rows = [(kind, connector_class(kind).manifest) for kind in kinds()]
    return head + "".join(
        f"| `{kind}` | {words.title} | {_cell(words.place)} | {_value(words.is_watched)} |\n" for kind, words in rows
    )


def _rules() -> str:
    """Return a table of the rules for connectors."""

    def line(name: str, rule: QualityRule) -> str:
        keeper = "suite" if rule.tests else f"`{rule.kept_by}`, own test" if rule.kept_by else "own test"
        cells = (rule.rule, rule.reason, rule.example, rule.exceptions)
        return f"| `{name}` | {rule.level} | {' | '.join(map(_cell, cells))} | {keeper} |\n"

    head = "| id | level | rule | reason | example | exceptions | checked by |\n|---|---|---|---|---|---|---|\n"
    return head + "".join(line(name, rule) for name, rule in RULES.items())


def _exemptions() -> str:
    """Return a table of the rules that our kinds do not keep."""
    rows = [(kind, connector_class(kind).manifest) for kind in kinds()]
    return "| kind | level | exempt |\n|---|---|---|\n" + "".join(
        f"| `{kind}` | {words.level} | {'; '.join(f'`{rule}`: {why}' for rule, why in words.exempt.items()) or '–'} |\n"
        for kind, words in rows
    )


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
    CONNECTORS.write_text(connectors_page(), encoding="utf-8")
    sys.exit(0)
