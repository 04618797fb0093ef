"""Build small valid files of each format with the standard library only."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

_DOCX_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
)
_RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    "{entries}</Relationships>"
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_EXTERNAL = ' TargetMode="External"'
_CORE = (
    '<?xml version="1.0"?><cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><dc:title>{title}</dc:title><dc:creator>Ada Berg</dc:creator>'
    '<dcterms:created xsi:type="dcterms:W3CDTF">{created}</dcterms:created></cp:coreProperties>'
)


def zipped(members: dict[str, str | bytes], stored: tuple[str, ...] = ()) -> bytes:
    """Return a zip file with fixed timestamps."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return out.getvalue()


def docx(body: str = "", title: str = "Water levels", created: str = "2024-03-01T09:30:00Z") -> bytes:
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = body or (
        '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Spring survey</w:t></w:r></w:p>'
        "<w:p><w:r><w:t>The gauge at the mill read two metres.</w:t></w:r></w:p>"
    )
    part = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return zipped(
        {
            "[Content_Types].xml": _DOCX_TYPES.format(
                overrides=f'<Override PartName="/word/document.xml" ContentType="{part}"/>'
                '<Override PartName="/docProps/core.xml" '
                'ContentType="application/vnd.openxmlformats-package.core-properties+xml"/>'
            ),
            "_rels/.rels": _RELATIONS.format(
                entries=f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/>'
                '<Relationship Id="r2" Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/'
                'core-properties" Target="docProps/core.xml"/>'
            ),
            "docProps/core.xml": _CORE.format(title=title, created=created),
            "word/document.xml": f'<?xml version="1.0"?><w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>',
        }
    )


def xlsx() -> bytes:
    sheet = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    main = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return zipped(
        {
            "[Content_Types].xml": _DOCX_TYPES.format(
                overrides=f'<Override PartName="/xl/workbook.xml" ContentType="{main}.sheet.main+xml"/>'
                f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{main}.worksheet+xml"/>'
            ),
            "_rels/.rels": _RELATIONS.format(
                entries=f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
            ),
            "xl/workbook.xml": f'<?xml version="1.0"?><workbook xmlns="{sheet}" xmlns:r="{_OFFICE}"><sheets>'
            '<sheet name="Honey" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": _RELATIONS.format(
                entries=f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
            ),
            "xl/worksheets/sheet1.xml": f'<?xml version="1.0"?><worksheet xmlns="{sheet}"><sheetData>'
            '<row r="1"><c r="A1" t="inlineStr"><is><t>Hive</t></is></c><c r="B1" t="inlineStr"><is><t>Kilos</t></is></c></row>'
            '<row r="2"><c r="A2" t="inlineStr"><is><t>North</t></is></c><c r="B2"><v>12.5</v></c></row>'
            "</sheetData></worksheet>",
        }
    )


def opc(main: str, content_type: str, members: dict[str, str | bytes]) -> bytes:
    """Return an OPC package with this name and content type of the main part. `members` are parts and relationships."""
    return zipped(
        {
            "[Content_Types].xml": _DOCX_TYPES.format(
                overrides=f'<Override PartName="/{main}" ContentType="{content_type}"/>'
            ),
            "_rels/.rels": _RELATIONS.format(
                entries=f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="{main}"/>'
            ),
            **members,
        },
        stored=tuple(name for name in members if not name.endswith((".xml", ".rels"))),
    )


def relations(*targets: tuple[str, str]) -> str:
    """Return a relationships part from pairs of type and target, with the IDs r1, r2 and so on."""
    return _RELATIONS.format(
        entries="".join(
            f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{target}"{_EXTERNAL if "://" in target else ""}/>'
            for number, (kind, target) in enumerate(targets, 1)
        )
    )


def pptx(
    slide: str = "Flow at the weir",
    related: tuple[tuple[str, str], ...] = (),
    extra: dict[str, str | bytes] | None = None,
) -> bytes:
    """Return a presentation with one slide. `related` are relationships of the slide, `extra` further parts."""
    names = (
        'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        f'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="{_OFFICE}"'
    )
    shape = (
        '<p:sp><p:nvSpPr><p:cNvPr id="2" name="Box"/><p:cNvSpPr/><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr>'
        "<p:spPr/><p:txBody><a:bodyPr/>"
        "<a:p><a:r><a:t>{}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
    return opc(
        "ppt/presentation.xml",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
        {
            "ppt/presentation.xml": f'<?xml version="1.0"?><p:presentation {names}><p:sldIdLst>'
            '<p:sldId id="256" r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(("slide", "slides/slide1.xml")),
            "ppt/slides/slide1.xml": f'<?xml version="1.0"?><p:sld {names}><p:cSld><p:spTree>{shape.format(slide)}'
            "</p:spTree></p:cSld></p:sld>",
            "ppt/slides/_rels/slide1.xml.rels": relations(*related),
            **(extra or {}),
        },
    )


def odt() -> bytes:
    names = (
        'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    )
    kind = "application/vnd.oasis.opendocument.text"
    return zipped(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": '<?xml version="1.0"?><manifest:manifest '
            'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
            "content.xml": f'<?xml version="1.0"?><office:document-content {names}><office:body><office:text>'
            '<text:h text:outline-level="1">Allotment rules</text:h><text:p>Water only in the evening.</text:p>'
            "</office:text></office:body></office:document-content>",
        },
        stored=("mimetype",),
    )


def ods(rows: int, columns: int) -> bytes:
    """Return a spreadsheet of equal cells."""
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table")
    )
    cell = '<table:table-cell office:value-type="string"><text:p>dry</text:p></table:table-cell>'
    content = (
        f'<?xml version="1.0"?><office:document-content{names}><office:body><office:spreadsheet><table:table table:name="T">'
        f'<table:table-row table:number-rows-repeated="{rows}">{cell * columns}</table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return zipped(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": '<?xml version="1.0"?><manifest:manifest '
            'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
            "content.xml": content,
        },
        stored=("mimetype",),
    )


def epub() -> bytes:
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<?xml version="1.0"?><container version="1.0" '
            'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="book.opf" '
            'media-type="application/oebps-package+xml"/></rootfiles></container>',
            "book.opf": '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" '
            'unique-identifier="id"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">1'
            "</dc:identifier><dc:title>Bees in winter</dc:title><dc:creator>Ada Berg</dc:creator><dc:language>en"
            '</dc:language></metadata><manifest><item id="one" href="one.xhtml" media-type="application/xhtml+xml"/>'
            '</manifest><spine><itemref idref="one"/></spine></package>',
            "one.xhtml": '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>One</title></head>'
            "<body><h1>The cluster</h1><p>They keep warm by shivering.</p></body></html>",
        },
        stored=("mimetype",),
    )


def pdf(
    words: str = "The dam was inspected in May.",
    title: str = "Dam report",
    created: str = "20240301093000Z",
    annotations: tuple[str, ...] = (),
) -> bytes:
    stream = f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode()
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> "
        b"/Annots [%s] >>" % b" ".join(b"%d 0 R" % number for number in range(7, 7 + len(annotations))),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title (%s) /Author (Ada Berg) /CreationDate (D:%s) >>" % (title.encode(), created.encode()),
        *(annotation.encode() for annotation in annotations),
    )
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def compound(streams: dict[str, bytes]) -> bytes:
    """Return a compound file (OLE2) with at most three streams, each padded to at least 4 096 bytes."""
    end, free, sector = 0xFFFFFFFE, 0xFFFFFFFF, 512
    contents = [content.ljust(max(4096, -(-len(content) // sector) * sector), b"\0") for content in streams.values()]
    fat: list[int] = [0xFFFFFFFD, end]
    entries = "Root Entry".encode("utf-16-le").ljust(64, b"\0")
    entries += struct.pack("<HBBIII36xIQ", 22, 5, 1, free, free, 1, end, 0)
    for number, (name, content) in enumerate(zip(streams, contents, strict=True), 1):
        start, count = len(fat), len(content) // sector
        fat += [*range(start + 1, start + count), end]
        after = number + 1 if number < len(streams) else free
        entries += name.encode("utf-16-le").ljust(64, b"\0")
        entries += struct.pack("<HBBIII36xIQ", 2 * len(name) + 2, 2, 1, free, after, free, start, len(content))
    assert len(fat) <= sector // 4
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<IIIIIIIIII", 0, 1, 1, 0, 4096, end, 0, end, 0, 0) + struct.pack("<I", free) * 108
    table = struct.pack(f"<{len(fat)}I", *fat).ljust(sector, b"\xff")
    return head + table + entries.ljust(sector, b"\0") + b"".join(contents)


def png(width: int = 3, height: int = 2) -> bytes:
    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\x00" + b"\x10\x20\x30" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


RTF = rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}\f0 The \b orchard\b0  needs pruning.\par}"

EML = b"""From: Ada Berg <ada@example.org>
To: "Nils O." <nils@example.net>, garden@example.com
Subject: =?utf-8?q?Wasserst=C3=A4nde?=
Date: Fri, 01 Mar 2024 10:30:00 +0100
Message-ID: <one@example.org>
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=x

--x
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

The level is =C3=BCber zwei Meter.
--x
Content-Type: text/html

<p>The level</p>
--x--
"""


def encrypted_pdf() -> bytes:
    """Return a PDF that is encrypted with an unknown password; its keys are zeros."""
    keys = b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (b"00" * 32, b"00" * 32)
    plain = pdf()
    place = plain.index(b"trailer\n<<") + len(b"trailer\n<<")
    return plain[:place] + b" /Encrypt " + keys + b" /ID [<00><00>]" + plain[place:]


def outlook_message(
    properties: dict[int, str | bytes],
    numbers: dict[int, int] | None = None,
    folders: Mapping[str, dict[str, bytes] | bytes] | None = None,
) -> bytes:
    """Return a .msg file ([MS-OXMSG], [MS-CFB]) with properties by tag, such as 0x0037 for the subject.

    Bytes are 8-bit strings, or the HTML body (0x1013); `numbers` are code pages; `folders` hold the
    streams of attached files, or are streams.
    """
    sector, small, none, end, chain = 512, 64, 0xFFFFFFFF, 0xFFFFFFFE, struct.Struct("<I")
    texts = {
        tag << 16 | (0x1F if isinstance(text, str) else 0x102 if tag == 0x1013 else 0x1E): text
        for tag, text in properties.items()
    }
    contents = {tag: text.encode("utf-16-le") if isinstance(text, str) else text for tag, text in texts.items()}
    listed = b"".join(struct.pack("<IIII", tag << 16 | 3, 6, number, 0) for tag, number in (numbers or {}).items())
    listed += b"".join(struct.pack("<IIII", tag, 6, len(content) + 2, 0) for tag, content in contents.items())
    streams = {"__properties_version1.0": bytes(32) + listed}
    streams |= {f"__substg1.0_{tag:08X}": content for tag, content in contents.items()}
    content, blocks = b"", list[int]()
    entries = [("Root Entry", 5, 0, 0, 1, none)]
    levels: list[dict[str, bytes | dict[str, bytes]]] = [{**streams, **(folders or {})}]
    for level in levels:
        levels += [{**inside} for inside in level.values() if isinstance(inside, dict)]
    following = 1 + len(levels[0])
    for level in levels:
        for left, (name, data) in enumerate(
            sorted(level.items(), key=lambda stream: (len(stream[0]), stream[0].upper())), 1 - len(level)
        ):
            right = len(entries) + 1 if left else none
            if isinstance(data, dict):
                entries.append((name, 1, 0, 0, following if data else none, right))
                following += len(data)
                continue
            first, count = len(blocks), -(-len(data) // small)
            entries.append((name, 2, first, len(data), none, right))
            content += data.ljust(count * small, b"\0")
            blocks += [*range(first + 1, first + count), end] if data else []
    directory = -(-len(entries) // 4)
    table = -(-len(blocks) * 4 // sector)
    start = 1 + directory + table  # follows the sector table, the directory and the mini sector table
    length = -(-len(content) // sector)
    runs = ((1, directory), (1 + directory, table), (start, length))
    sectors = [0xFFFFFFFD, *(link for at, count in runs for link in (*range(at + 1, at + count), end))]
    records = b""
    for name, kind, first, size, child, right in entries:
        is_root = kind == 5
        label = (name + "\0").encode("utf-16-le")
        records += label.ljust(64, b"\0") + struct.pack("<HBBIII", len(label), kind, 1, none, right, child)
        records += bytes(36) + struct.pack("<IQ", start if is_root else first, len(content) if is_root else size)
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, 1 + directory, table, end, 0) + chain.pack(0)
    links = b"".join(map(chain.pack, sectors)).ljust(sector, b"\xff")
    small_links = b"".join(map(chain.pack, blocks)).ljust(table * sector, b"\xff")
    return (
        head.ljust(sector, b"\xff") + links + records.ljust(directory * sector, b"\0")
        + small_links + content.ljust(length * sector, b"\0")
    )  # fmt: skip


def photograph(order: str, *texts: tuple[int, bytes]) -> bytes:
    """Return a JPEG with these fields of EXIF."""
    tiff = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8)
    tiff += struct.pack(f"{order}HHHIII", 1, 0x8769, 4, 1, 26, 0) + struct.pack(f"{order}H", len(texts))
    place = 28 + 12 * len(texts) + 4
    for tag, text in texts:
        tiff += struct.pack(f"{order}HHII", tag, 2, len(text), place)
        place += len(text)
    exif = b"Exif\x00\x00" + tiff + b"\x00" * 4 + b"".join(text for _, text in texts)
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + b"\x03" * 12
    return b"\xff\xd8\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + frame


def _palm(page: bytes) -> bytes:
    """Compress a record with PalmDOC: pairs of a space and a letter, repeated text and runs of other bytes."""
    out, place = bytearray(), 0
    while place < len(page):
        rest = page[place:]
        back = page.rfind(rest[:10], 0, place) if len(rest) >= 10 else -1
        if back >= 0 and place - back < 2_048:
            out += (0x8000 | (place - back) << 3 | 7).to_bytes(2, "big")
            place += 10
        elif rest[:1] == b" " and len(rest) > 1 and 0x40 <= rest[1] <= 0x7F:
            out.append(rest[1] ^ 0x80)
            place += 2
        elif 9 <= rest[0] <= 0x7F:
            out.append(rest[0])
            place += 1
        else:
            out += b"\1" + rest[:1]
            place += 1
    return bytes(out)


def mobipocket_book(
    page: str, compression: int = 2, protection: int = 0, trailer: bytes = b"", version: int = 6
) -> bytes:
    """Return a book with EXTH metadata. `trailer`: bytes after the text of each record; version 8 adds a list of sections."""
    whole = page.encode()
    bodies = [whole[at : at + 4096] for at in range(0, len(whole), 4096)]
    texts = [(_palm(body) if compression == 2 else body) + trailer for body in bodies]
    fields = b"".join(
        struct.pack(">II", kind, len(value) + 8) + value
        for kind, value in ((100, b"Ada Berg"), (503, "Mühlen".encode()), (524, b"de"))
    )
    head = bytearray(260)
    struct.pack_into(">HHIHHHH", head, 0, compression, 0, len(whole), len(texts), 4096, protection, 0)
    struct.pack_into(">4sIIIII", head, 16, b"MOBI", 232, 2, 65001, 1, version)
    struct.pack_into(">I", head, 128, 0x40)
    struct.pack_into(">H", head, 242, 0b11 if trailer else 0)
    head[248:] = struct.pack(">4sII", b"EXTH", 12 + len(fields), 3) + fields
    records = [bytes(head), *texts]
    if version == 8:
        records.append(struct.pack(">4sIIII", b"FDST", 12, 1, 0, len(whole) - 7))
    starts = 78 + 8 * len(records)
    entries = b"".join(
        struct.pack(">II", starts + sum(map(len, records[:number])), number) for number in range(len(records))
    )
    name = b"book".ljust(32, b"\0") + bytes(28) + b"BOOKMOBI" + bytes(8)
    return name + struct.pack(">H", len(records)) + entries + b"".join(records)
