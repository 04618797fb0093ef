"""PDFs built from their objects (ISO 32000-2, 7.5), so that each test shows the objects that matter to it."""

from __future__ import annotations


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
