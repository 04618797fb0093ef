"""PDFs built from their objects (ISO 32000-2, 7.5), so that each test shows the objects that matter to it."""

from __future__ import annotations

import struct


def pdf(objects: dict[int, bytes]) -> bytes:
    """Return a PDF of these objects by number; object 1 is the catalogue."""
    out, places = b"%PDF-1.7\n", {}
    for number, content in sorted(objects.items()):
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    size = max(objects) + 1
    table = b"".join(b"%010d 00000 n \n" % places[n] if n in places else b"0000000000 65535 f \n" for n in range(size))
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    return out + b"xref\n0 %d\n%s" % (size, table) + trailer


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), entries, data)


def page(content: bytes, resources: bytes, catalogue: bytes = b"", entries: bytes = b"") -> dict[int, bytes]:
    """Return objects 1 to 4 of a PDF of one page."""
    return {
        1: b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalogue,
        2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        3: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << %s >> %s >>"
        % (resources, entries),
        4: stream(content),
    }


def true_type(letters: str) -> bytes:
    """Return a font (OpenType 1.9); its glyph n + 1 is the nth of these letters. All glyphs are the same square."""
    count = len(letters) + 1
    square = struct.pack(">5h2H4B8h", 1, 0, 0, 500, 500, 3, 0, 1, 1, 1, 1, 0, 500, 0, -500, 0, 0, 500, 0)
    codes = sorted((ord(letter), glyph) for glyph, letter in enumerate(letters, 1))
    groups = b"".join(struct.pack(">3I", code, code, glyph) for code, glyph in codes)
    tables = {
        b"cmap": struct.pack(">4HI2H3I", 0, 1, 3, 10, 12, 12, 0, 16 + len(groups), 0, len(codes)) + groups,
        b"glyf": square * count,
        b"head": struct.pack(
            ">4I2H2Q4h2H3h", 1 << 16, 1 << 16, 0, 0x5F0F3CF5, 0, 1000, 0, 0, 0, 0, 500, 500, 0, 8, 2, 1, 0
        ),
        b"hhea": struct.pack(">I3hH6h8xhH", 1 << 16, 800, -200, 0, 600, 0, 0, 500, 1, 0, 0, 0, count),
        b"hmtx": struct.pack(">Hh", 600, 0) * count,
        b"loca": b"".join(struct.pack(">I", glyph * len(square)) for glyph in range(count + 1)),
        b"maxp": struct.pack(">I14H", 1 << 16, count, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
    }
    place = 12 + 16 * len(tables)
    head, body = struct.pack(">I4H", 1 << 16, len(tables), 64, 2, 16 * len(tables) - 64), b""
    for name, content in tables.items():
        head += struct.pack(">4s3I", name, 0, place + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    return head + body
