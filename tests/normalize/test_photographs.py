"""Photographs have the time, the camera and the place that they state."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from io import BytesIO

import pytest
from PIL import Image

from catchment.content.normalize import normalize
from catchment.content.pictures.exif import photograph
from catchment.model import RawContent


def _fields() -> Image.Exif:
    fields = Image.Exif()
    fields[0x010F], fields[0x0110] = "Canon", "Canon EOS R5"
    fields.get_ifd(0x8769).update({0x9003: "2024:03:01 10:30:00", 0x9011: "+02:00"})
    fields.get_ifd(0x8825).update({1: "S", 2: (46.0, 56.0, 53.16), 3: "E", 4: (7.0, 26.0, 50.64)})
    return fields


_PHOTOGRAPH = {
    "camera": "Canon EOS R5",
    "taken": "2024-03-01T10:30:00+02:00",
    "latitude": -46.9481,
    "longitude": 7.4474,
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_photograph_has_camera_time_and_place(kind: str) -> None:
    written = BytesIO()
    Image.new("RGB", (50, 40)).save(written, kind, exif=_fields().tobytes())
    document = normalize(RawContent(written.getvalue(), "photo"))
    assert {name: document.properties.get(name) for name in _PHOTOGRAPH} == _PHOTOGRAPH
    assert document.created == datetime(2024, 3, 1, 8, 30, tzinfo=UTC)
    assert list(document.properties) == sorted(document.properties)
    assert document.text == ""


@pytest.mark.parametrize("exif", [b"\0\0\0\6" + _fields().tobytes(), b"\0\0\0\0" + _fields().tobytes()[6:]])
def test_photograph_of_a_phone_has_camera_time_and_place(exif: bytes) -> None:
    data = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\x20infeExif\0" + bytes(range(256)) + exif
    assert normalize(RawContent(data, "IMG_1.heic")).properties.items() >= _PHOTOGRAPH.items()


@pytest.mark.parametrize(
    "place",
    [
        {1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)},
        {1: "N", 2: (91.0, 0.0, 0.0), 3: "E", 4: (7.0, 0.0, 0.0)},
        {1: "N", 2: (46.0, 0.0, 0.0)},
        {1: "N", 2: (46.0, 0.0), 3: "E", 4: (7.0, 0.0, 0.0)},
    ],
)
def test_photograph_with_a_wrong_place_has_none(place: dict[int, object]) -> None:
    fields = Image.Exif()
    fields.get_ifd(0x8825).update(place)
    assert photograph(b"\xff\xd8" + fields.tobytes(), "image/jpeg") == (None, {})


@pytest.mark.filterwarnings("error")
def test_damaged_fields_of_a_photograph_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    choose, whole = random.Random(1), _fields().tobytes()
    for number in range(1_500):
        data = bytearray(whole)
        for _ in range(choose.randint(1, 12)):
            data[choose.randrange(6, len(data))] = choose.randrange(256)
        moment, properties = photograph(
            bytes(data[: choose.randint(20, len(data))] if number % 3 else data), "image/jpeg"
        )
        assert moment is None or moment.tzinfo is UTC
        assert properties.keys() <= _PHOTOGRAPH.keys()
    assert "46" not in caplog.text
