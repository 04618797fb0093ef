from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.content.redaction import redact


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("cannot open /home/ada/Diary/2024.md", "Diary"),
        ("cannot open ~/Diary/2024.md", "Diary"),
        (r"cannot open C:\Users\ada\Diary.md", "ada"),
        ("mail from ada.lovelace@mail.example.org failed", "lovelace"),
        ("token ghp_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghij"),
        ("PASSWORD=hunter2 was refused", "hunter2"),
        ('{"password": "hunter2"} was refused', "hunter2"),
        ("https://example.org/?access_token=hunter2&page=1 was refused", "hunter2"),
        ("cannot open '/home/ada/My Diary/May 2024.md'", "Diary"),
        ("cannot open '/home/ada/My Diary/May 2024.md'", "May"),
        ("authorization: Bearer abc.def", "abc.def"),
        ("cannot reach imaps://ada:secret@mail.example.org/INBOX", "secret"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("jwt eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSM", "SflKxwRJSM"),
    ],
)
def test_private_data_is_removed(text: str, gone: str) -> None:
    assert gone not in redact(text)


@pytest.mark.parametrize(
    ("template", "rest"),
    [
        ("password: {}", ""),
        ("password={} was refused", " was refused"),
        ('{{"password": "{}", "user": "ada"}}', '", "user": "ada"}'),
        ('{{"password":"{}","user":"ada"}}', '","user":"ada"}'),
        ("host=db;password={};user=ada", ";user=ada"),
        ("connect(password='{}')", "')"),
        ("password={}, user=ada", ", user=ada"),
    ],
)
@pytest.mark.parametrize("value", [r"0?cA\T,x;y", "a,b;c", 'a"b', "x'y,z", ",;a"])
def test_password_with_separators_is_removed_as_a_whole(template: str, rest: str, value: str) -> None:
    before = template.partition("{}")[0].replace("{{", "{")
    assert redact(template.format(value)) == f"{before}<secret>{rest}"


@pytest.mark.parametrize(
    "text",
    ["the PDF has no pages", "expected 3 of 4 parts", "and/or", "attempt 1 of 3 took 2.5 s", "line 3: bad header"],
)
def test_plain_words_are_unchanged(text: str) -> None:
    assert redact(text) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["a.", "a@", "a@a-", "/a", "'/", "eyJ-", "token ", "token=,a", "token=,", "-----BEGIN A "]
)
def test_long_text_takes_bounded_time(piece: str) -> None:
    assert len(redact(piece * 200_000)) <= 500


@given(st.text(max_size=2_000))
def test_the_result_is_one_short_printable_line(text: str) -> None:
    result = redact(text)
    assert len(result) <= 500
    assert result.isprintable() or result == ""
    assert redact(result) == result
