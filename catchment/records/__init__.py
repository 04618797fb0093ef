"""The values that the ledger returns: frozen, with aware UTC times. Quick to import, without the database."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def record_of(kind: type[T], *records: object, **values: object) -> T:
    """Return a record with these values. Its other fields are those of the same name in `records`: of the first that has it."""
    fields_of_kind: Any = kind
    for record in records:
        for field in fields(fields_of_kind):
            if field.name not in values and hasattr(record, field.name):
                values[field.name] = getattr(record, field.name)
    return kind(**values)
