"""Rows as records: each field from the column of its name, converted by the type of the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from enum import EnumType
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from catchment.ledger.db.database import AnyRow, from_json, maybe_time

R = TypeVar("R")


def record(kind: Callable[..., R], row: AnyRow, **others: Any) -> R:
    """Return a row as a record of this class. `others`: the fields that differ from a column in name or value.

    The column of a time may end with `_at`.
    """
    stored = row._mapping
    for name, convert in _conversions(kind).items():
        if name not in others:
            others[name] = convert(stored[name if name in stored else f"{name}_at"])
    return kind(**others)


@cache
def _conversions(kind: Any) -> dict[str, Callable[[Any], Any]]:
    """Return how to convert the stored value of each field."""
    hints = get_type_hints(kind)
    return {field.name: _conversion(hints[field.name]) for field in fields(kind)}


def _conversion(hint: Any) -> Callable[[Any], Any]:
    if get_origin(hint) is Mapping:
        return from_json
    if get_origin(hint) is tuple:
        return lambda stored: tuple(from_json(stored))
    kinds = get_args(hint) or (hint,)
    if datetime in kinds:
        return maybe_time
    member_of = next((kind for kind in kinds if isinstance(kind, EnumType)), None)
    return lambda stored: stored if stored is None or member_of is None else member_of(stored)
