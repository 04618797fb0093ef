"""JSON as other programs write it: halves of characters, marks, numbers of any size, depth, garbage."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.content.foreign_json import MAX_DEPTH, read_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud83c\udf3e"', "🌾"),
        (rb'"\uD83C\uDF3E \ud83d"', "🌾 \ufffd"),
        (rb'["\ud83d\ud83d\ude00\ude00"]', ["\ufffd😀\ufffd"]),
        (rb'{"\udf3e": "\\ud83d \" \\\ud83d"}', {"\ufffd": '\\ud83d " \\\ufffd'}),
        (b'"\xed\xa0\xbc\xed\xbc\xbe \xed\xa0\xbc \xc3\xa9"', "🌾 \ufffd é"),
        ('"\ud83c\udf3e \ud83c"', "🌾 \ufffd"),
        (b'"a\xff\nb"', "a\ufffd\nb"),
        (b"[NaN, Infinity, -Infinity, 1e999, 1]", [None, None, None, None, 1]),
        (b"[18446744073709551615, 18446744073709551616, -9223372036854775808]", [2**64 - 1, 2.0**64, -(2**63)]),
        (rb'["\ud83d", 18446744073709551616, -9223372036854775809]', ["\ufffd", 2.0**64, -(2.0**63)]),
        (b"[" + b"9" * 5_000 + b"]", [None]),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{"a": "é"}'.encode("utf-16"), {"a": "é"}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (rb'{"a": 1, "a": "\ud83d"}', {"a": "\ufffd"}),
        (bytearray(b"[]"), []),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, ...),
    ],
)
def test_text_of_another_program_is_read(text: bytes | str, value: Any) -> None:
    assert value is ... or read_json(text) == value
    assert orjson.dumps(read_json(text), option=orjson.OPT_NON_STR_KEYS) if value is not ... else read_json(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"a": 1} x',
        rb'["\ud83d"] ]',
        b'{"a": ',
        b"'a'",
        b'"\\x"',
        b'"\\u12"',
        b"\xff\xfe\x00",
        *(opening * depth for opening in (b"[", b'{"a":') for depth in (MAX_DEPTH + 1, 900, 100_000)),
        *(b"[" * depth + rb'"\ud83d"' + b"]" * depth for depth in (MAX_DEPTH + 1, 900, 100_000)),
        b"[" * 900 + b"]" * 900,
    ],
)
def test_text_that_is_not_json_or_too_deep_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)


@given(_VALUES, st.booleans())
def test_whatever_python_writes_as_json_can_be_stored(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    found = read_json(text)
    assert found == read_json(text.encode("utf-8", "surrogatepass"))
    assert orjson.loads(orjson.dumps(found)) == found
