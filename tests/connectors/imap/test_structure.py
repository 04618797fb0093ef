"""Attachments found in a BODYSTRUCTURE."""

from __future__ import annotations

import base64

import pytest

from connectors.imap.bodystructure import files


@pytest.mark.parametrize("size", [57, 5_700, 50 * 1024 * 1024])
def test_size_of_an_encoded_file_is_its_decoded_size(size: int) -> None:
    encoded = base64.encodebytes(bytes(size)).replace(b"\n", b"\r\n")
    node = (b"video", b"mp4", (b"name", b"long.mp4"), None, None, b"base64", len(encoded), None, None, None)
    [file] = files(node)
    assert abs(file.size - size) <= 2
