"""Attachments found in a BODYSTRUCTURE."""

from __future__ import annotations

import base64

import pytest

from catchment.content.normalize.mail.attachments import attachments
from connectors.imap.bodystructure import files


@pytest.mark.parametrize("size", [57, 5_700, 50 * 1024 * 1024])
def test_size_of_an_encoded_file_is_its_decoded_size(size: int) -> None:
    encoded = base64.encodebytes(bytes(size)).replace(b"\n", b"\r\n")
    node = (b"video", b"mp4", (b"name", b"long.mp4"), None, None, b"base64", len(encoded), None, None, None)
    [file] = files(node)
    assert abs(file.size - size) <= 2


@pytest.mark.parametrize(
    ("subtype", "disposition", "is_file"),
    [
        (b"plain", None, False),
        (b"plain", b"inline", False),
        (b"plain", b"attachment", True),
        (b"x-patch", None, True),
        (b"x-patch", b"inline", False),
        (b"x-patch", b"attachment", True),
        (b"vcard", b"inline", True),
    ],
)
def test_named_text_part_is_a_file_as_in_the_parsed_message(
    subtype: bytes, disposition: bytes | None, is_file: bool
) -> None:
    said = (disposition, (b"filename", b"a.txt")) if disposition else None
    text = (b"text", b"plain", None, None, None, b"7bit", 5, 1, None, None, None)
    named = (b"text", subtype, (b"name", b"a.txt"), None, None, b"7bit", 5, 1, None, said, None)
    field = b"Content-Disposition: %s; filename=a.txt\n" % disposition if disposition else b""
    head = b"From: a@example.org\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b\n"
    message = head + b"Content-Type: text/%s; name=a.txt\n%s\nwords\n--b--\n" % (subtype, field)
    parts = [file.part for file in files(([text, named], b"mixed"))]
    assert parts == [file.part for file in attachments(message)] == (["2"] if is_file else [])
