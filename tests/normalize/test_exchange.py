"""Calendars, contacts, diagrams, routes, outlines, exported notes and subtitles become readable text."""

from __future__ import annotations

import base64
import zlib
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from catchment.content.normalize import normalize
from catchment.errors import ParseError, ResourceExhausted
from catchment.model import Document, RawContent


def _read(text: str | bytes, name: str) -> Document:
    return normalize(RawContent(text if isinstance(text, bytes) else text.encode(), name))


def _calendar(*components: str, head: str = "") -> str:
    return "\r\n".join(("BEGIN:VCALENDAR", "VERSION:2.0", head, *components, "END:VCALENDAR", ""))


_EVENT = """\
BEGIN:VEVENT
DTSTAMP:20260301T090000Z
DTSTART;TZID="Europe/Oslo":20260314T180000
DTEND;TZID="Europe/Oslo":20260314T193000
RRULE:FREQ=MONTHLY;BYDAY=2SA
EXDATE;TZID=Europe/Oslo:20260411T180000,20260509T180000
SUMMARY;LANGUAGE=en:Weir inspection\\, spring
LOCATION:Fernsluice\\; north gate
ORGANIZER;CN="Bergan, Ada";SENT-BY="mailto:x@example.org":mailto:ada@example.org
ATTENDEE;CN=Nils ^'Bo^' Oker;PARTSTAT=ACCEPTED:MAILTO:nils@example.net
DESCRIPTION:Bring the calibrated gau
 ge and the protocol\\nof the last inspection\\, p
\tlease.
ATTACH;ENCODING=BASE64;VALUE=BINARY:QUJDREVGR0hJSktMTU5PUA==
LAST-MODIFIED:20260302T100000Z
BEGIN:VALARM
DESCRIPTION:not this
END:VALARM
END:VEVENT""".replace("\n", "\r\n")


def test_calendar_with_one_event_has_its_title_and_dates() -> None:
    document = _read(_calendar(_EVENT, head="X-WR-CALNAME:Water board"), "a.ics")

    assert document.text == (
        "## Weir inspection, spring\n\n"
        "- Starts: 2026-03-14 18:00 (Europe/Oslo)\n"
        "- Ends: 2026-03-14 19:30 (Europe/Oslo)\n"
        "- Repeats: FREQ=MONTHLY;BYDAY=2SA\n"
        "- Except: 2026-04-11 18:00 (Europe/Oslo), 2026-05-09 18:00 (Europe/Oslo)\n"
        "- Where: Fernsluice; north gate\n"
        "- Organizer: Bergan, Ada <ada@example.org>\n"
        '- Attendees: Nils "Bo" Oker <nils@example.net>\n\n'
        "Bring the calibrated gauge and the protocol\nof the last inspection, please.\n\n"
        "Dates: 2026-03-14, 2026-06-13, 2026-07-11, 2026-08-08, 2026-09-12, 2026-10-10, 2026-11-14, 2026-12-12, 2027-01-09, "
        "2027-02-13, 2027-03-13, 2027-04-10, 2027-05-08, 2027-06-12, 2027-07-10, 2027-08-14, 2027-09-11, 2027-10-09, "
        "2027-11-13, 2027-12-11, 2028-01-08, 2028-02-12, 2028-03-11"
    )
    assert (document.title, document.author) == ("Weir inspection, spring", "Bergan, Ada <ada@example.org>")
    assert document.created == datetime(2026, 3, 14, 17, tzinfo=UTC)
    assert document.modified == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert document.warnings == ("attached files not read: 1",)


def test_calendar_with_several_entries_has_its_own_name() -> None:
    task = "BEGIN:VTODO\r\nSUMMARY:Grease the gate\r\nDUE;VALUE=DATE:20260320\r\nSTATUS:NEEDS-ACTION\r\nEND:VTODO"
    entry = "BEGIN:VJOURNAL\nDTSTART;VALUE=DATE:20260321\nSUMMARY:High water\nDESCRIPTION:All day.\nEND:VJOURNAL"
    document = _read(_calendar(_EVENT, task, entry, head="X-WR-CALNAME:Water board"), "export")

    assert document.media_type == "text/calendar"
    assert (document.title, document.created) == ("Water board", None)
    assert "## Grease the gate\n\n- Due: 2026-03-20\n- Status: NEEDS-ACTION" in document.text
    assert document.text.endswith("## High water\n\n- Starts: 2026-03-21\n\nAll day.")


def test_fold_inside_a_character_is_joined() -> None:
    event = "BEGIN:VEVENT\nSUMMARY:Überlauf\nEND:VEVENT".encode()
    cut = event.index("Ü".encode()) + 1
    document = _read(b"BEGIN:VCALENDAR\n" + event[:cut] + b"\r\n " + event[cut:] + b"\nEND:VCALENDAR", "a.ics")
    assert (document.title, document.warnings) == ("Überlauf", ())


def test_calendar_of_the_first_version_is_read() -> None:
    event = "SUMMARY;ENCODING=QUOTED-PRINTABLE;CHARSET=UTF-8:M=C3=BChle am=\r\n Bach\r\nDTSTART:20260314T180000Z"
    document = _read(
        f"BEGIN:VCALENDAR\r\nVERSION:1.0\r\nBEGIN:VEVENT\r\n{event}\r\nEND:VEVENT\r\nEND:VCALENDAR", "a.vcs"
    )
    assert document.title == "Mühle am Bach"
    assert "- Starts: 2026-03-14 18:00 UTC" in document.text


def test_large_calendar_is_read_up_to_a_limit() -> None:
    events = "\n".join(f"BEGIN:VEVENT\nSUMMARY:Reading {number}\nEND:VEVENT" for number in range(10_001))
    document = _read(f"BEGIN:VCALENDAR\n{events}\nEND:VCALENDAR", "a.ics")
    assert document.text.count("## Reading") == 10_000
    assert document.warnings == ("only the first 10,000 of 10,001 entries were read; split the calendar",)


@pytest.mark.parametrize("name", ["a.ics", "a.vcf", "a.kml", "a.drawio", "a.excalidraw"])
def test_exchange_file_with_other_content_is_refused(name: str) -> None:
    with pytest.raises(ParseError):
        _read("only words", name)


@pytest.mark.parametrize(
    ("name", "text", "cut"),
    [
        ("a.ics", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:a\nEND:VEVENT\nBEGIN:VEVENT\nUID:b\nEND:VEVENT\nEND:VCALENDAR\n", 36),
        ("a.ics", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:a\nEND:VEVENT\nEND:VCALENDAR\n", 14),
        ("a.vcf", "BEGIN:VCARD\nFN:a\nEND:VCARD\nBEGIN:VCARD\nFN:b\nEND:VCARD\n", 12),
    ],
)  # fmt: skip
def test_truncated_calendar_and_contacts_have_a_warning(name: str, text: str, cut: int) -> None:
    assert normalize(RawContent(text.encode(), name)).warnings == ()
    assert normalize(RawContent(text[:-cut].encode(), name)).warnings == ("the file is truncated; text may be missing",)


def test_contact_of_version_4_is_read() -> None:
    document = _read(
        "BEGIN:VCARD\r\nVERSION:4.0\r\nFN:Jörg Müllerschön\r\nN:Müllerschön;Jörg;;;\r\n"
        "ORG:Water board;Gates\r\nitem1.EMAIL;TYPE=work;PREF=1:joerg@example.org\r\n"
        'TEL;VALUE=uri;TYPE="voice,cell":tel:+47-00-000\r\nADR;TYPE=home:;;Mill lane 3;Fernsluice;;0001;Norway\r\n'
        "BDAY:--0314\r\nREV:20260302T100000Z\r\nPHOTO:data:image/jpeg;base64,AAECAwQF\r\n"
        "NOTE:Keeps the keys of the boathouse\\, and\r\n  the gauge.\\nCall first.\r\nEND:VCARD\r\n",
        "a.vcf",
    )
    assert document.title == "Jörg Müllerschön"
    assert document.text == (
        "## Jörg Müllerschön\n\n- Organization: Water board, Gates\n- Mail: joerg@example.org (work)\n"
        "- Phone: tel:+47-00-000 (cell)\n- Address: Mill lane 3, Fernsluice, 0001, Norway (home)\n- Birthday: --03-14\n\n"
        "Keeps the keys of the boathouse, and the gauge.\nCall first."
    )
    assert document.modified == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert document.warnings == ("pictures, sounds and keys not read: 1",)


def test_contacts_of_older_versions_are_read() -> None:
    first = (
        "BEGIN:VCARD\r\nVERSION:2.1\r\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;Zo=C3=AB;;;\r\n"
        "TEL;HOME;VOICE:00 11\r\nNOTE;QUOTED-PRINTABLE;CHARSET=ISO-8859-1:Schl=FCssel=0D=0Aund =\r\nWehr=\r\n"
        "=\r\nbuch\r\nPHOTO;ENCODING=BASE64;JPEG:AAECAwQF\r\n BgcICQ==\r\n\r\nEND:VCARD\r\n"
    )
    second = (
        "BEGIN:VCARD\nVERSION:3.0\nFN:\nORG:Mill\\, Sons & Co\nPHOTO;ENCODING=b;TYPE=JPEG:AAECAwQF\n BgcI\nEND:VCARD\n"
    )
    document = _read(first + second, "export.txt")

    assert (document.media_type, document.title) == ("text/vcard", None)
    assert document.text == (
        "## Zoë Müller\n\n- Phone: 00 11 (home)\n\nSchlüssel\nund Wehrbuch\n\n"
        "## Mill, Sons & Co\n\n- Organization: Mill, Sons & Co"
    )
    assert document.warnings == ("pictures, sounds and keys not read: 2",)


_GRAPH = (
    '<mxGraphModel><root><mxCell id="0"/><mxCell id="2" value="Pumping&lt;br&gt;station" style="html=1" vertex="1"/>'
    '<object label="Sluice &lt;b&gt;gate&lt;/b&gt;" link="https://example.org/gate" id="3"><mxCell vertex="1"/></object>'
    '<UserObject label="a &lt; b" tooltip="Opened by hand" id="4"><mxCell/></UserObject></root></mxGraphModel>'
)
_LABELS = "Pumping station\n\nSluice **gate**\n\nhttps://example.org/gate\n\na < b\n\nOpened by hand".replace("*", "")


def _compressed(xml: str) -> str:
    machine = zlib.compressobj(wbits=-15)
    return base64.b64encode(machine.compress(quote(xml, safe="").encode()) + machine.flush()).decode()


@pytest.mark.parametrize(
    "page", [_GRAPH, _compressed(_GRAPH), quote(_GRAPH, safe=""), _GRAPH.replace("&", "&amp;").replace("<", "&lt;")]
)
def test_labels_of_a_diagram_are_read_in_every_form(page: str) -> None:
    text = f'<mxfile host="x"><diagram id="a" name="Water">{page}</diagram><diagram name="Empty"/></mxfile>'
    assert _read(text, "plan.drawio").text == _read(text, "plan.drawio.xml").text == f"## Water\n\n{_LABELS}"


def test_bare_graph_and_damaged_pages_of_diagrams() -> None:
    assert _read(_GRAPH, "plan.xml").text == _LABELS
    for page in ("!!!", base64.b64encode(b"\xff\xff").decode()):
        with pytest.raises(ParseError):
            _read(f"<mxfile><diagram>{page}</diagram></mxfile>", "a.drawio")
    large = f"<a>{'a' * 12_000_000}</a>"
    with pytest.raises(ResourceExhausted, match="unpacks to more than 32 MB"):
        _read(f"<mxfile>{f'<diagram>{_compressed(large)}</diagram>' * 3}</mxfile>", "a.drawio")


def test_drawings_in_json_keep_their_texts_only() -> None:
    sketch = (
        '{"type":"excalidraw","elements":[{"type":"text","text":"Weir\\nkeeper","originalText":"Weir\\nkeeper"},'
        '{"type":"text","text":"gone","isDeleted":true}],"files":{"a":{"dataURL":"data:image/png;base64,AAEC"}}}'
    )
    assert _read(sketch, "a.excalidraw").text == "Weir keeper"
    nested = '{"graphic":{"type":"Text","Text":{"html":"<p style=\\"x\\"><span>Upper &amp; lower</span> gate</p>"}}}'
    gliffy = f'{{"contentType":"application/gliffy+json","stage":{{"objects":[{{"id":1,"children":[{nested}]}}]}}}}'
    assert _read(gliffy, "a.gliffy").text == "Upper & lower gate"


def test_places_and_routes_are_read_without_coordinates() -> None:
    places = (
        '<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document><name>Mill tour</name><Placemark>'
        "<name>Weir</name><description><![CDATA[<b>Deep</b> water<br>here]]></description><Point><coordinates>1,2</coordinates>"
        "</Point></Placemark></Document></kml>"
    )
    document = _read(places, "tour.xml")
    assert (document.title, document.text) == ("Mill tour", "## Mill tour\n\n## Weir\n\nDeep water\nhere")
    route = (
        '<gpx version="1.1"><metadata><name>Round</name><time>2026-03-14T18:00:00Z</time></metadata>'
        '<wpt lat="1" lon="2"><name>Gate</name><desc>Locked &amp; old</desc></wpt><trk><trkseg><trkpt lat="1" lon="2">'
        "<ele>3</ele></trkpt></trkseg></trk></gpx>"
    )
    document = _read(route, "round.gpx")
    assert (document.title, document.text) == ("Round", "## Round\n\n## Gate\n\nLocked & old")
    assert document.created == datetime(2026, 3, 14, 18, tzinfo=UTC)


def test_outline_is_a_nested_list() -> None:
    document = _read(
        '<opml version="2.0"><head><title>Reading</title></head><body><outline text="Rivers"><outline text="Weirs &amp; mills" '
        '_note="see shelf" xmlUrl="https://example.org/feed"/></outline><outline text="Bees"/></body></opml>',
        "list.opml",
    )
    assert document.title == "Reading"
    assert document.text == "- Rivers\n   - Weirs & mills see shelf https://example.org/feed\n- Bees"


def test_exported_notes_are_read_without_their_files() -> None:
    note = (
        "<note><title>Gauge</title><content><![CDATA[<?xml version='1.0'?><!DOCTYPE en-note SYSTEM 'x'><en-note><div>Read "
        "<i>daily</i></div><en-crypt>U0VDUkVUIQ==</en-crypt></en-note>]]></content><created>20260314T180000Z</created>"
        '<resource><data encoding="base64">AAECAwQF</data></resource></note>'
    )
    export = '<?xml version="1.0"?><!DOCTYPE en-export SYSTEM "http://example.org/export.dtd"><en-export>%s</en-export>'
    document = _read(export % note, "one.enex")
    assert (document.title, document.text) == ("Gauge", "## Gauge\n\nRead daily")
    assert document.created == datetime(2026, 3, 14, 18, tzinfo=UTC)
    assert document.warnings == ("attached files not read: 1", "encrypted texts not read: 1")
    several = _read(export % (note * 2), "two.enex")
    assert (several.title, several.created, several.text.count("## Gauge")) == (None, None, 2)


def test_office_files_in_xml_of_2003_are_read() -> None:
    sheet = (
        '<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?><Workbook xmlns="urn:schemas-microsoft-com:office:'
        'spreadsheet" xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"><Worksheet ss:Name="Cloth"><Table><Row><Cell>'
        '<Data ss:Type="String">Fustian</Data></Cell><Cell><Data ss:Type="Number">12</Data></Cell></Row><Row><Cell><Data>'
        "Kersey</Data></Cell></Row></Table></Worksheet></Workbook>"
    )
    for name in ("cloth.xls", "cloth.xml"):
        assert _read(sheet, name).text == "## Cloth\n\nFustian | 12\nKersey"
    words = (
        '<w:wordDocument xmlns:w="w"><w:body><w:p><w:r><w:t>Dear </w:t></w:r><w:r><w:t>weaver</w:t></w:r></w:p>'
        "<w:p><w:r><w:t>of kersey</w:t></w:r></w:p></w:body></w:wordDocument>"
    )
    package = '<pkg:package xmlns:pkg="p"><pkg:part><pkg:xmlData>%s</pkg:xmlData></pkg:part></pkg:package>'
    assert _read(words, "letter.doc").text == _read(package % words, "letter.xml").text == "Dear weaver\n\nof kersey"


def test_subtitles_are_read_without_time_codes() -> None:
    captions = (
        "WEBVTT - Mill\n\nNOTE made by hand\n\nSTYLE\n::cue {}\n\n1\n00:01.000 --> 00:04.000 align:start\n"
        "<v Ada>The <c.loud>weir</c> was &amp;\nraised</v>\n\n"
        "00:04.000 --> 00:06.000\nraised\nby eleven<00:05.000> centimetres\n"
    )
    assert _read(captions, "a.vtt").text == "Ada: The weir was &\nraised\nby eleven centimetres"
    film = "1\r\n00:00:01,000 --> 00:00:02,000\r\n{\\an8}<i>Mühle</i>\r\nam Bach\r\n\r\n2\r\n"
    film += "00:00:03,000 --> 00:00:04,000\r\nEnde\r\n"
    assert _read(film.encode("cp1252"), "a.srt").text == "Mühle\nam Bach\nEnde"
    assert _read("only words", "a.srt").text == "only words"
