"""Write the attachments of the example vault whose bytes no text editor can make; the same bytes on every machine.

Only the standard library, no compression (its output differs between zlib versions), no clock, no randomness.
Run `python examples/make_binaries.py` to renew `examples/vault/Attachments`, or name another folder as the argument.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

ATTACHMENTS = Path(__file__).parent / "vault" / "Attachments"

# fmt: off
STAGES = (
    62, 61, 61, 60, 61, 62, 66, 74, 88, 106, 128, 153, 180, 208, 238, 266, 292, 322, 358, 396, 424, 437, 432, 424,
    414, 403, 392, 382, 372, 362, 353, 345, 337, 329, 322, 314, 306, 299, 291, 282, 272, 262, 252, 243, 234, 226, 219,
)
# fmt: on
"""Stage at Mühlsteg in centimetres, each two hours from 2026-03-12 09:40."""

Colours = Sequence[tuple[int, int, int]]


class Picture:
    """A small picture of palette indices."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.rows = [bytearray(width) for _ in range(height)]

    def box(self, left: int, top: int, width: int, height: int, colour: int) -> None:
        """Fill a rectangle."""
        for row in self.rows[max(top, 0) : top + height]:
            for x in range(max(left, 0), min(left + width, self.width)):
                row[x] = colour

    def line(self, start: tuple[int, int], end: tuple[int, int], colour: int, thick: int = 1) -> None:
        """Draw a straight line with a square pen."""
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for i in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * i // steps
            y = start[1] + (end[1] - start[1]) * i // steps
            self.box(x - thick // 2, y - thick // 2, thick, thick, colour)

    def png(self, palette: Colours) -> bytes:
        """The picture as an indexed PNG."""
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 3, 0, 0, 0)
        pixels = b"".join(b"\x00" + bytes(row) for row in self.rows)
        colours = b"".join(bytes(colour) for colour in palette)
        parts = ((b"IHDR", header), (b"PLTE", colours), (b"IDAT", stored(pixels)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", binascii.crc32(kind + data))
            for kind, data in parts
        )


def stored(data: bytes) -> bytes:
    """A zlib stream of stored blocks."""
    blocks = [data[i : i + 65_535] for i in range(0, len(data), 65_535)]
    out = b"\x78\x01"
    for number, block in enumerate(blocks, start=1):
        out += struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF) + block
    return out + struct.pack(">I", zlib.adler32(data))


def apiary_map() -> bytes:
    """A map: meadow, river, dyke, the gauge as a square, twelve hives as dots."""
    picture = Picture(200, 140)
    river = ((0, 30), (40, 44), (85, 60), (120, 88), (165, 100), (199, 128))
    for start, end in pairwise(river):
        picture.line(start, end, 1, 15)
        picture.line((start[0], start[1] - 12), (end[0], end[1] - 12), 2, 2)
    picture.box(110, 76, 9, 9, 3)
    for hive in range(6):
        picture.box(20 + 9 * hive, 112, 5, 5, 4)
        picture.box(132 + 9 * hive, 62, 5, 5, 4)
    return picture.png(((196, 214, 160), (84, 132, 173), (140, 118, 84), (40, 40, 40), (212, 150, 40)))


def hydrograph() -> bytes:
    """The flood of March as a curve."""
    picture = Picture(240, 120)
    picture.box(14, 4, 1, 104, 1)
    picture.box(14, 107, 222, 1, 1)
    for metre in range(1, 5):
        picture.box(11, 107 - 23 * metre, 225, 1, 2)
    points = [(16 + 4 * i + i * 17 // 25, 107 - stage * 23 // 100) for i, stage in enumerate(STAGES)]
    for start, end in pairwise(points):
        picture.line(start, end, 3, 2)
    return picture.png(((255, 255, 255), (60, 60, 60), (220, 220, 220), (30, 90, 160)))


def stages() -> bytes:
    """The readings behind the hydrograph, as a table with CRLF."""
    lines = ["time_utc,stage_m,quality"]
    for i, stage in enumerate(STAGES):
        day, hour = divmod(9 + 2 * i, 24)
        quality = "estimated" if stage > 412 else "good"
        lines.append(f"2026-03-{12 + day}T{hour:02}:40Z,{stage / 100:.2f},{quality}")
    return ("\r\n".join(lines) + "\r\n").encode()


def hive_photo() -> bytes:
    """A grey JPEG of flat 8 x 8 blocks (only the mean of each block is coded): a hive at dawn, seen from afar."""
    width, height = 30, 20
    bits = ""
    previous = 0
    for y in range(height):
        for x in range(width):
            level = 40 + 5 * (height - y) + 2 * x
            if 10 <= x < 20 and 7 <= y < 17:
                level = 210 - 12 * ((y - 7) % 5)
            value = level - 128
            difference, previous = value - previous, value
            size = abs(difference).bit_length()
            magnitude = difference if difference > 0 else difference + (1 << size) - 1
            bits += f"{size:04b}" + (f"{magnitude:0{size}b}" if size else "") + "0"
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\x00")
    segments = (
        (0xE0, b"JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"),
        (0xDB, b"\x00" + b"\x08" * 64),
        (0xC0, struct.pack(">BHHB3B", 8, 8 * height, 8 * width, 1, 1, 0x11, 0)),
        (0xC4, b"\x00" + bytes((0, 0, 0, 9, *[0] * 12)) + bytes(range(9))),
        (0xC4, b"\x10" + bytes((1, *[0] * 15)) + b"\x00"),
        (0xDA, bytes((1, 1, 0x00, 0, 63, 0))),
    )
    out = b"\xff\xd8"
    for marker, data in segments:
        out += struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data
    return out + scan + b"\xff\xd9"


def pdf(title: str, pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with one text page for each list of lines; a line that starts with `# ` is a heading."""
    first_page = 4
    kids = " ".join(f"{first_page + 2 * i} 0 R" for i in range(len(pages)))
    catalog = first_page + 2 * len(pages)
    objects: list[bytes] = [
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        content = page_content(lines)
        objects.append(
            f"<< /Type /Page /Parent 1 0 R /MediaBox [0 0 595 842] /Contents {first_page + 2 * number + 1} 0 R "
            "/Resources << /Font << /F1 2 0 R /F2 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    objects.append(b"<< /Type /Catalog /Pages 1 0 R /Lang (en) >>")
    objects.append(
        b"<< /Title (%s) /Author (Hanne Lindqvold) /CreationDate (D:20260131090000Z) >>" % title.encode("cp1252")
    )
    out, offsets = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"<< /Size %d /Root %d 0 R /Info %d 0 R >>" % (len(objects) + 1, catalog, catalog + 1)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return out + head + table + b"trailer\n" + trailer + b"\nstartxref\n%d\n%%%%EOF\n" % len(out)


def page_content(lines: Iterable[str]) -> bytes:
    """The drawing instructions of one page of text."""
    out = [b"BT", b"56 780 Td"]
    for line in lines:
        heading = line.startswith("# ")
        text = line.removeprefix("# ").encode("cp1252")
        for special in (b"\\", b"(", b")"):
            text = text.replace(special, b"\\" + special)
        out.append(b"/F2 18 Tf 0 -34 Td" if heading else b"/F1 11 Tf 0 -17 Td")
        out.append(b"(%s) Tj" % text)
    return b"\n".join([*out, b"ET"])


def gauge_report() -> bytes:
    """Three pages about the year 2025 at the gauge."""
    return pdf("Gauge report 2025", (REPORT_SUMMARY, REPORT_EQUIPMENT, REPORT_PLANS))


def flood_marks() -> bytes:
    """A scan of three pages that was cut off while it was copied; the catalogue and the last pages are missing."""
    pages = [[f"# Flood marks of 1987, sheet {sheet}", *(f"Nail {nail}" for nail in range(30))] for sheet in (1, 2, 3)]
    whole = pdf("Flood marks of 1987", pages)
    return whole[: len(whole) // 2]


REPORT_SUMMARY = (
    "# Gauge report 2025: Ardel at Mühlsteg",
    "Wendelrode Water Board, January 2026.",
    "The year was the driest since measurements began in 1961. The mean discharge",
    "was 3.9 cubic metres per second, a third below the long-term mean of 5.8.",
    "The lowest flow, 0.39 cubic metres per second, was recorded on 21 September.",
    "The series is complete for 99.2 % of all quarter hours.",
)
REPORT_EQUIPMENT = (
    "# Equipment",
    "Bubbler: no failure. Annual drift 11 mm, corrected by twelve staff readings.",
    "Radar: four outages, all of them caused by spiders on the housing.",
    "Turbidity probe: returned to the maker in May, replaced under warranty.",
    "Modem: nine outages in frost. A replacement (620) is requested for 2026.",
)
REPORT_PLANS = (
    "# Plans for 2026",
    "1. Publish the fifteen-minute series with quality flags.",
    "2. Inspect the cableway (3400).",
    "3. Survey the flood marks at the mill again: the scan of 1987 is unreadable.",
)

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml"
XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
PACKAGE_PARTS = {
    "[Content_Types].xml": f'''<Types xmlns="{PACKAGE}/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/word/document.xml" ContentType="{MAIN}.document.main+xml"/>
<Override PartName="/word/styles.xml" ContentType="{MAIN}.styles+xml"/>
<Override PartName="/word/numbering.xml" ContentType="{MAIN}.numbering+xml"/>
<Override PartName="/docProps/core.xml" ContentType="application/vnd.openxmlformats-package.core-properties+xml"/>
</Types>''',
    "_rels/.rels": f'''<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="word/document.xml"/>
<Relationship Id="rId2" Type="{PACKAGE}/relationships/metadata/core-properties" Target="docProps/core.xml"/>
</Relationships>''',
    "docProps/core.xml": f'''<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<dc:title>Minutes of the general meeting</dc:title><dc:creator>Ines Abendroth</dc:creator>
<dcterms:created xsi:type="dcterms:W3CDTF">2026-04-12T08:00:00Z</dcterms:created>
</cp:coreProperties>''',
    "word/_rels/document.xml.rels": f'''<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="rId1" Type="{OFFICE}/styles" Target="styles.xml"/>
<Relationship Id="rId2" Type="{OFFICE}/numbering" Target="numbering.xml"/>
</Relationships>''',
    "word/styles.xml": f'''<w:styles xmlns:w="{W}">
<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/>
<w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Heading2"><w:name w:val="heading 2"/>
<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="ListParagraph"><w:name w:val="List Paragraph"/></w:style>
</w:styles>''',
    "word/numbering.xml": f'''<w:numbering xmlns:w="{W}">
<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/>
<w:lvlText w:val="%1."/></w:lvl></w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>
</w:numbering>''',
}


VOTES = (("Motion", "Yes", "No"), ("Budget", "39", "2"), ("Music until ten", "33", "8"), ("Hedge at 1.40 m", "6", "35"))


def paragraph(text: str, style: str = "", listed: bool = False) -> str:
    """One paragraph of WordprocessingML."""
    properties = f'<w:pStyle w:val="{style}"/>' if style else ""
    if listed:
        properties += '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
    return f'<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def table(rows: Iterable[Sequence[str]]) -> str:
    """A table of WordprocessingML."""
    cells = ("<w:tr>" + "".join(f"<w:tc><w:tcPr/>{paragraph(cell)}</w:tc>" for cell in row) + "</w:tr>" for row in rows)
    return f"<w:tbl><w:tblPr/><w:tblGrid/>{''.join(cells)}</w:tbl>"


def minutes() -> bytes:
    """The minutes of the general meeting, as a DOCX with headings, a list and a table."""
    body = (
        paragraph("Minutes of the general meeting", "Heading1"),
        paragraph(
            "Sonnenwinkel allotment association, 11 April 2026, 15:00, in the shed. 41 of 64 plots were present."
        ),
        paragraph("Decisions", "Heading2"),
        paragraph("The budget of 2026 is accepted.", "ListParagraph", listed=True),
        paragraph("Helpers of the clean-up move up one place on the waiting list, once.", "ListParagraph", listed=True),
        paragraph("A wheelchair ramp at the shed is to be priced by August.", "ListParagraph", listed=True),
        paragraph("Votes", "Heading2"),
        table(VOTES),
        paragraph("Taken down by Ines Abendroth, treasurer."),
    )
    parts = PACKAGE_PARTS | {
        "word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{"".join(body)}<w:sectPr/></w:body></w:document>'
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, text in parts.items():
            entry = zipfile.ZipInfo(name, date_time=(2026, 4, 12, 8, 0, 0))
            entry.create_system = 0
            archive.writestr(entry, XML + text)
    return buffer.getvalue()


QUOTE_POSITIONS = "position,amount\npressure switch,240\nelbow and four metres of pipe,310\nlabour,630\n"
QUOTE = """\
Received: from mail.example.org by mx.example.org; Mon, 23 Mar 2026 10:12:07 +0100
Date: Mon, 23 Mar 2026 10:12:05 +0100
From: =?utf-8?q?Installationen_Br=C3=BChl?= <office@plumber.example.org>
To: Hanne Lindqvold <hanne@example.org>
Cc: Ines Abendroth <ines.abendroth@example.org>
Subject: =?utf-8?q?Quote_for_the_pump=2C_f=C3=BCr_Sonnenwinkel?=
Message-ID: <20260323101205.4711@plumber.example.org>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="=_outer"

--=_outer
Content-Type: multipart/alternative; boundary="=_inner"

--=_inner
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Dear Ms Lindqvold,

the pressure switch of the pump is burnt and the elbow between plots 33 and 3=
4 is cracked. We offer the repair for 1180 in all; valid until 30 April.

Kind regards, Installationen Br=C3=BChl
--=_inner
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<html><body><p>Dear Ms Lindqvold,</p><p>the <b>pressure switch</b> of the pum=
p is burnt and the elbow between plots 33 and 34 is cracked. We offer the rep=
air for <b>1180</b> in all; valid until 30 April.</p><p>Kind regards, Install=
ationen Br=C3=BChl</p></body></html>
--=_inner--

--=_outer
Content-Type: text/csv; name="positions.csv"
Content-Disposition: attachment; filename="positions.csv"
Content-Transfer-Encoding: base64

{attachment}
--=_outer--
"""


def quote() -> bytes:
    """A mail with a plain and an HTML text and an attachment."""
    attachment = base64.encodebytes(QUOTE_POSITIONS.encode()).decode().rstrip()
    return QUOTE.replace("{attachment}", attachment).replace("\n", "\r\n").encode()


def logger_dump() -> bytes:
    """The raw memory of a data logger: no known format, nothing to read."""
    records = (struct.pack("<HHBB", 0xA55A, stage * 37 % 65_521, i % 256, 0xFE) for i, stage in enumerate(STAGES * 6))
    return b"\x00\xffDL4\x00\x11" + b"".join(records)


FILES: dict[str, Callable[[], bytes]] = {
    "2026-03-23 Quote for the pump.eml": quote,
    "apiary-map.png": apiary_map,
    "gauge-report-2025.pdf": gauge_report,
    "hive-07.jpg": hive_photo,
    "hydrograph.png": hydrograph,
    "logger-0417.dat": logger_dump,
    "minutes-general-meeting.docx": minutes,
    "scan-1987-flood-marks.pdf": flood_marks,
    "stage-march-2026.csv": stages,
}


def main(arguments: Sequence[str]) -> None:
    """Write every file into the folder given, or into the vault."""
    folder = Path(arguments[0]) if arguments else ATTACHMENTS
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        (folder / name).write_bytes(make())


if __name__ == "__main__":
    main(sys.argv[1:])
