"""Bytes to text: every encoding a note may have."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.content.normalize.decode import decode, is_text, said_by


@pytest.mark.parametrize(
    ("data", "text", "warned"),
    [
        (b"plain", "plain", False),
        ("Ä 水 🌱".encode(), "Ä 水 🌱", False),
        (codecs.BOM_UTF8 + b"x", "x", False),
        (codecs.BOM_UTF16_LE + "Ä\n".encode("utf-16-le"), "Ä\n", False),
        (codecs.BOM_UTF16_BE + "Ä\n".encode("utf-16-be"), "Ä\n", False),
        (codecs.BOM_UTF32_LE + "Ä".encode("utf-32-le"), "Ä", False),
        ("Müller – “ok”".encode("cp1252"), "Müller – “ok”", True),
        (b"\x81\xe4", "\x81ä", True),
        ("Überfluß größer".encode() + b"\xff", "Überfluß größer\ufffd", True),
        (b"a\r\nb\rc\n", "a\nb\nc\n", False),
        (b"a\x00b", "a\ufffdb", True),
        (b"", "", False),
    ],
)
def test_text_is_read_in_its_encoding(data: bytes, text: str, warned: bool) -> None:
    found, warnings = decode(data)
    assert found == text
    assert bool(warnings) is warned


@given(st.binary(max_size=200))
def test_any_bytes_become_text_without_nul_and_carriage_return(data: bytes) -> None:
    text, _ = decode(data)
    assert "\x00" not in text
    assert "\r" not in text
    text.encode()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Ä", "latin-1"),
        ("Привет", "koi8-r"),
        ("日本語", "iso-2022-jp"),
        ("日本語", "shift_jis"),
        ("Ä", "utf-16-le"),
        ("ok", "nonsense"),
    ],
)
def test_a_declared_encoding_counts_where_utf_8_does_not_tell(text: str, encoding: str) -> None:
    data = text.encode("ascii" if encoding == "nonsense" else encoding)
    assert decode(data, encoding) == (text, ())


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ('<?xml version="1.0" encoding="windows-1251"?>', "windows-1251"),
        ("<?xml version='1.0' encoding = 'koi8-r' standalone='yes'?>", "koi8-r"),
        ("# -*- coding: koi8-r -*-", "koi8-r"),
        ("#!/usr/bin/python\n# vim: set fileencoding=shift_jis :", "shift_jis"),
        ("\n\n# coding: koi8-r", None),
        ('<?xml version="1.0" encoding="utf-16"?>', None),
        ("words", None),
    ],
)
def test_a_text_may_name_its_encoding(head: str, name: str | None) -> None:
    assert said_by(f"{head}\nwords".encode()) == name


def test_encodings_that_are_no_way_to_write_text_are_not_used() -> None:
    for encoding in ("unicode_escape", "utf-7", "punycode", "idna", "rot13", "zlib"):
        assert decode(b"\\ud800 +2AA- a-", encoding)[0] == "\\ud800 +2AA- a-"


def test_binary_data_is_not_text() -> None:
    assert is_text(b"words\n")
    assert is_text(codecs.BOM_UTF16_LE + "x".encode("utf-16-le"))
    assert not is_text(b"MZ\x90\x00\x03")
    assert not is_text(bytes(range(1, 32)) * 9)
