"""Mail: MIME structure, attachments, quotations and signatures, header fields, and robustness to damage."""

from __future__ import annotations

import base64
import email
import email.policy
from datetime import UTC, datetime
from email.message import EmailMessage, Message
from email.policy import EmailPolicy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.content.normalize.decode import decode
from catchment.content.normalize.mail import letterhead, mail, words
from catchment.content.normalize.mail.attachments import MAX_BYTES, attachments, single
from catchment.content.normalize.mail.dates import moment
from catchment.content.normalize.mail.mime import Part, parse
from catchment.content.normalize.mail.replies import mark_replies
from catchment.errors import ItemError, ResourceExhausted, SkipReason
from catchment.model import ASIDE, Document, RawContent
from tests.normalize import samples

_GOLDEN = sorted((Path(__file__).parent / "golden" / "mail").glob("*.eml"))
_SMALL = [data for path in _GOLDEN if len(data := path.read_bytes()) < 4_000]


def _with_files(*files: tuple[str, bytes]) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"], message["Message-ID"] = "ada@example.org", "files", "<files@example.org>"
    message.set_content("See the files.")
    for name, data in files:
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


# Structure


def _leaves(message: Message) -> list[tuple[str, bytes]]:
    if message.is_multipart():
        return [leaf for part in message.get_payload() if isinstance(part, Message) for leaf in _leaves(part)]
    payload = message.get_payload(decode=True)
    return [(message.get_content_type(), payload if isinstance(payload, bytes) else b"")]


def _our_leaves(part: Part) -> list[tuple[str, bytes]]:
    return [leaf for inner in part.parts for leaf in _our_leaves(inner)] or [(part.media_type, part.content())]


_texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=120)


_names = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=30)


@settings(max_examples=30)
@given(
    body=_texts,
    encoding=st.sampled_from(["quoted-printable", "base64"]),
    page=st.none() | _texts,
    files=st.lists(st.tuples(_names, st.binary(max_size=100)), max_size=3),
    policy=st.sampled_from([email.policy.SMTP, email.policy.default]),
)
def test_parts_agree_with_the_standard_library(
    body: str, encoding: str, page: str | None, files: list[tuple[str, bytes]], policy: EmailPolicy
) -> None:
    message = EmailMessage()
    message["From"] = "ada@example.org"
    message.set_content(body or "x", cte=encoding)
    if page is not None:
        message.add_alternative(f"<p>{page}", subtype="html")
    for name, content in files:
        message.add_attachment(content, maintype="image", subtype="png", filename=name)
    data = message.as_bytes(policy=policy)
    assert _our_leaves(parse(data).root) == _leaves(email.message_from_bytes(data))


def _multipart(*parts: EmailMessage, kind: str = "mixed") -> EmailMessage:
    whole = EmailMessage()
    whole["Content-Type"] = f"multipart/{kind}"
    for part in parts:
        whole.attach(part)
    return whole


def _leaf(kind: str) -> EmailMessage:
    part = EmailMessage()
    part["Content-Type"] = kind
    part.set_payload("x")
    return part


def _enclosed(message: EmailMessage) -> EmailMessage:
    part = EmailMessage()
    part["Content-Type"] = "message/rfc822"
    part.set_payload([message])
    return part


def test_parts_are_numbered_as_in_the_example_of_rfc_3501() -> None:
    text, data, image = _leaf("text/plain"), _leaf("application/octet-stream"), _leaf("image/gif")
    alternative = _multipart(_leaf("text/plain"), _leaf("text/richtext"), kind="alternative")
    inner = _multipart(image, _enclosed(_multipart(text, alternative)))
    whole = _multipart(text, data, _enclosed(_multipart(text, data)), inner, _enclosed(_leaf("text/html")))
    leaves = {part.number: part.media_type for part in parse(whole.as_bytes()).root.walk() if not part.parts}
    assert leaves == {
        "1": "text/plain",
        "2": "application/octet-stream",
        "3.1": "text/plain",
        "3.2": "application/octet-stream",
        "4.1": "image/gif",
        "4.2.1": "text/plain",
        "4.2.2.1": "text/plain",
        "4.2.2.2": "text/richtext",
        "5.1": "text/html",
    }


_paragraphs = st.lists(
    st.lists(st.sampled_from(["weir", "pump", "mill", "key", "shed", "sluice"]), min_size=1), max_size=5
)


@given(_paragraphs, _paragraphs)
def test_text_has_each_word_of_either_form_and_no_paragraph_twice(
    plain: list[list[str]], page: list[list[str]]
) -> None:
    message = EmailMessage()
    message["From"] = "ada@example.org"
    message.set_content("\n\n".join(map(" ".join, plain)))
    message.add_alternative("".join(f"<p>{' '.join(words)}</p>" for words in page), subtype="html")
    text = mail(message.as_bytes()).text
    assert set(text.split()) == {word for words in (*plain, *page) for word in words}
    said = [words for words in text.split("\n\n") if words]
    assert all(said.count(words) <= max(plain.count(words.split()), page.count(words.split())) for words in said)


@st.composite
def _mutated(draw: st.DrawFn) -> bytes:
    data = draw(st.sampled_from(_SMALL))
    for _ in range(draw(st.integers(1, 4))):
        first, last = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        match draw(st.sampled_from(["cut", "twice", "put", "swap", "flip"])):
            case "cut":
                data = data[:first] + data[last:]
            case "twice":
                data = data[:last] + data[first:last] * draw(st.integers(1, 3)) + data[last:]
            case "put":
                data = data[:first] + draw(st.binary(max_size=40)) + data[first:]
            case "swap":
                data = data[last:] + data[first:last] + data[:first]
            case "flip":
                data = data[:first] + bytes(byte ^ 0x80 for byte in data[first : first + 8]) + data[first + 8 :]
    return data


@settings(max_examples=100)
@given(_mutated())
def test_damaged_message_is_read_or_raises_parse_error(data: bytes) -> None:
    try:
        document = mail(data)
    except ItemError:
        return
    document.text.encode("utf-8")
    repr(document.properties).encode("utf-8")
    assert mail(data) == document
    covered = extract(document).chunks
    assert all(0 <= chunk.start < chunk.end <= len(document.text) for chunk in covered)
    parts = [file.part for file in attachments(data)]
    assert len(set(parts)) == len(parts)


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_header_fields_of_any_bytes_are_read(data: bytes) -> None:
    for result in (words.text(data), words.file_name(words.raw(data)), *words.identifiers(data)):
        result.encode("utf-8")
        assert "\n" not in result
    for name, address in words.people(data):
        f"{name}{address}".encode()
    moment(words.text(data))


# Attachments


def test_attachment_equals_the_file_on_disk() -> None:
    [file] = attachments(_with_files(("report.pdf", samples.pdf())))
    on_disk = RawContent(samples.pdf(), "report.pdf")
    assert file.raw().data == on_disk.data
    assert normalize(file.raw()) == normalize(on_disk)


def test_same_attachment_twice_has_one_hash_and_two_parts() -> None:
    first, second = attachments(_with_files(("a.csv", b"1,2\n"), ("b.csv", b"1,2\n")))
    assert (first.content_hash, first.size) == (second.content_hash, second.size)
    assert (first.part, second.part) == ("2", "3")


def test_separately_fetched_part_is_the_same_attachment() -> None:
    message = _with_files(("a.csv", b"1,2\n"), ("b.bin", bytes(range(256))))
    entity = message.split(b"\n--", 3)[3].partition(b"\n")[2].rpartition(b"\n--")[0]
    assert single(entity, "3") == list(attachments(message))[1]


def test_part_without_a_header_is_all_body() -> None:
    assert single(b"\r\none\r\nSubject: two\r\n", "2").data == b"one\r\nSubject: two\r\n"


def test_attachment_of_50_mb_is_read_in_any_encoding() -> None:
    encoded = base64.encodebytes(bytes(MAX_BYTES)).replace(b"\n", b"\r\n")
    head = b"From: a@example.org\r\nContent-Type: video/mp4; name=long.mp4\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    [file] = attachments(head + encoded)
    assert (file.skipped, file.size, len(file.data)) == (None, MAX_BYTES, MAX_BYTES)
    [file] = attachments(head + encoded.rstrip(b"=\r\n") + b"AAAAA\r\n")
    assert file.skipped is SkipReason.TOO_LARGE


def test_attachment_over_50_mb_is_skipped() -> None:
    message = b"From: a@example.org\nContent-Type: video/mp4; name=long.mp4\n\n" + bytes(MAX_BYTES + 1)
    [file] = attachments(message)
    assert (file.skipped, file.data, file.content_hash) == (SkipReason.TOO_LARGE, b"", "")
    assert (file.name, file.size) == ("long.mp4", MAX_BYTES + 1)


def test_attached_bomb_is_rejected_only_when_normalized() -> None:
    bomb = samples.zipped({"[Content_Types].xml": "<Types/>", "word/document.xml": " " * 20_000_000})
    message = _with_files(("bomb.docx", bomb))
    assert mail(message).text == "See the files."
    [file] = attachments(message)
    with pytest.raises(ResourceExhausted):
        normalize(file.raw())


# Quotations and signatures


def _own(document: Document) -> list[str]:
    return [
        document.text[chunk.start : chunk.end].strip() for chunk in extract(document).chunks if chunk.heading != ASIDE
    ]


def test_passages_separate_answers_from_quotations() -> None:
    quoted = "\n".join(f"> The pump of plot {number} was looked at and needs a new seal." for number in range(9))
    document = mail(f"From: a@example.org\n\nI ordered nine seals.\n\nOn 1 Mar 2024, Ada wrote:\n{quoted}\n".encode())
    assert _own(document) == ["I ordered nine seals."]
    assert [chunk.heading for chunk in extract(document).chunks] == ["", ASIDE]


def test_passages_cover_every_character_of_a_message() -> None:
    blocks = [f"{'> ' if number % 2 else ''}{'word ' * (number * 40)}" for number in range(1, 12)]
    document = mail(b"From: a@example.org\n\n" + "\n\n".join(blocks).encode())
    covered: set[int] = set()
    for chunk in extract(document).chunks:
        covered.update(range(chunk.start, chunk.end))
    assert all(place in covered or letter.isspace() for place, letter in enumerate(document.text))


def test_message_of_many_alternations_is_split_like_other_text() -> None:
    lines = "".join(f"> {'q' * 210}\n\nown {number}\n\n" for number in range(1_000))
    document = mail(b"From: a@example.org\n\n" + lines.encode())
    assert len(extract(document).chunks) < len(document.text) / 1_500


@pytest.mark.parametrize(
    ("written", "introduction"),
    [
        ("Yes.", "On Fri, 1 Mar 2024 at 10:30, Nils Oker <nils@example.net> wrote:"),
        ("Ja.", "Am Fr., 1. März 2024 um 10:30 Uhr schrieb Nils Oker <nils@example.net>:"),
        ("Oui.", "Le ven. 1 mars 2024 à 10:30, Nils Oker <nils@example.net> a écrit :"),
        ("Sí.", "El vie, 1 mar 2024 a las 10:30, Nils Oker (<nils@example.net>) escribió:"),
        ("Sì.", "Il giorno ven 1 mar 2024 alle ore 10:30 Nils Oker <nils@example.net> ha scritto:"),
        ("Sim.", "Em sex., 1 de mar. de 2024 às 10:30, Nils Oker <nils@example.net> escreveu:"),
        ("Ja.", "Op vr 1 mrt 2024 om 10:30 schreef Nils Oker <nils@example.net>:"),
        ("Ja.", "Den fre 1 mars 2024 kl 10:30 skrev Nils Oker <nils@example.net>:"),
        ("Tak.", "W dniu pt., 1 mar 2024 o 10:30 Nils Oker <nils@example.net> napisał(a):"),
        ("Ano.", "pá 1. 3. 2024 v 10:30 odesílatel Nils Oker <nils@example.net> napsal:"),
        ("Kyllä.", "pe 1. maalisk. 2024 klo 10.30 Nils Oker (nils@example.net) kirjoitti:"),
        ("Да.", "пт, 1 мар. 2024 г. в 10:30, Nils Oker <nils@example.net> написал(а):"),
        ("はい。", "2024年3月1日(金) 10:30 Nils Oker <nils@example.net>:"),
        ("是。", "Nils Oker <nils@example.net> 于2024年3月1日周五 10:30写道："),
    ],
)
def test_introduction_in_any_language_is_part_of_the_quotation(written: str, introduction: str) -> None:
    result = mark_replies(f"{written}\n\n{introduction}\n\n> Is the pump back?\n")
    assert result == f"{written}\n\n> {introduction}\n>\n> Is the pump back?"


@pytest.mark.parametrize(
    "labels",
    [
        "From Sent To Subject",
        "Von Gesendet An Betreff",
        "De Envoyé À Objet",
        "De Enviado Para Asunto",
        "Da Inviato A Oggetto",
        "Van Verzonden Aan Onderwerp",
        "Från Skickat Till Ämne",
        "Od Wysłano Do Temat",
        "От Отправлено Кому Тема",
        "发件人 发送时间 收件人 主题",
        "差出人 送信日時 宛先 件名",
    ],
)
def test_copied_message_with_headers_is_quoted_in_any_language(labels: str) -> None:
    values = ("Nils Oker <nils@example.net>", "1 March 2024 10:30", "Ada Berg", "pump")
    block = "\n".join(f"{label}: {value}" for label, value in zip(labels.split(), values, strict=True))
    result = mark_replies(f"See below.\n\n{block}\n\nIs it back?")
    assert result.split("\n\n")[0] == "See below."
    assert all(line.startswith(">") for line in result.split("\n")[2:])
    assert result.endswith("> Is it back?")


@pytest.mark.parametrize(
    ("text", "body", "signature"),
    [
        ("Words.\n\n-- \nAda", "Words.", "Ada"),
        ("Words.\n--\nAda\nClub", "Words.", "Ada\nClub"),
        ("Words.\n\nViele Grüße\nAda", "Words.", "Viele Grüße\nAda"),
        ("Words.\n\nCordialement,\n\nAda Berg\n+33 1 23", "Words.", "Cordialement,\n\nAda Berg\n+33 1 23"),
        ("Words.\n\nSent from my iPad", "Words.", "Sent from my iPad"),
        ("Words.\n\nVon meinem iPhone gesendet", "Words.", "Von meinem iPhone gesendet"),
        ("Words.\n\n/Ada", "Words.", "/Ada"),
    ],
)
def test_signature_follows_its_mark(text: str, body: str, signature: str) -> None:
    assert mark_replies(text) == f"{body}\n\n-- \n{signature}"


@pytest.mark.parametrize(
    "text",
    [
        "Thanks\nI will be there on Monday with the key and the new seal.",
        "Sent from my desk, this takes longer.",
        "We wrote: the pump stays.\n\nNothing else.",
        "- one\n- two",
        "A list -- with a dash.",
        "From: here\n\nto there",
        "",
    ],
)
def test_text_resembling_signature_or_quotation_is_unchanged(text: str) -> None:
    assert mark_replies(text) == text


# Header fields


@pytest.mark.parametrize(
    "value",
    [
        "Mon, 02 Jan 2023 10:00:00 +0100",
        "Mon, 02 Jan 2023 10:00:00 +01:00",
        "Mon, 02 Jan 2023 10:00:00+01:00",
        "Mon Jan 02 2023 10:00:00 GMT+0100 (CET)",
        "2 Jan 2023 10:00 UTC+01:00",
        "2023-01-02T10:00:00+01:00",
        "2023-01-02T09:00:00Z",
        "2023-01-02 10:00:00 +0100",
        "02-Jan-2023 10:00:00 +0100",
    ],
)
def test_time_zone_is_read_in_every_notation(value: str) -> None:
    assert moment(value) == datetime(2023, 1, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("Tuesday 02 March 2010 04:02:33 PM", "2010-03-02 16:02:33"),
        ("Tue, 2 Mar 2010 12:05:00 a.m.", "2010-03-02 00:05"),
        ("March 2, 2010 4:02 pm", "2010-03-02 16:02"),
        ("Mon, 06 May 2019 24:00:00 +0000", "2019-05-07 00:00"),
        ("31 Dec 2019 24:00", "2020-01-01 00:00"),
        ("Thu, 4 Mai 2023 02:32:49 +0200", "2023-05-04 00:32:49"),
        ("Mi., 1. März 2023 10:00:00 +0100", "2023-03-01 09:00"),
        ("mar. 1er août 2023 10:00:00 +0200", "2023-08-01 08:00"),
        ("2 de diciembre de 2010 16:02 GMT", "2010-12-02 16:02"),
        ("gio, 4 mag 2023 02:32:49 EST", "2023-05-04 07:32:49"),
        ("do 4 mrt 2023 10:00", "2023-03-04 10:00"),
        ("qui, 4 out 2023 10:00", "2023-10-04 10:00"),
        ("4 października 2023 10:00", "2023-10-04 10:00"),
        ("Cum, 4 Ağu 2023 10:00", "2023-08-04 10:00"),
        ("Пт, 4 мая 2023 10:00 +0300", "2023-05-04 07:00"),
        ("2010년 3월 2일 16:02", "2010-03-02 16:02"),
        ("2010年3月2日 16:02", "2010-03-02 16:02"),
        ("2010/03/02 16:02 +0900", "2010-03-02 07:02"),
        ("02.03.2010 16:02", "2010-03-02 16:02"),
        ("03/27/2014 11:12", "2014-03-27 11:12"),
        ("2025-03-27T130000", "2025-03-27 13:00"),
        ("Tue, 2 Mar 2010", "2010-03-02 00:00"),
    ],
)
def test_dates_in_the_notations_of_mail_programs_are_read(value: str, time: str) -> None:
    assert moment(value) == datetime.fromisoformat(time).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    ["", "soon", "03/04/2014 11:12", "31 Jun 2018 10:00", "4 Foo 2023 10:00", "25:61", "4 Mai 2023 99:00", "4 May"],
)
def test_date_that_names_no_certain_time_is_not_guessed(value: str) -> None:
    assert moment(value) is None


def test_letterhead_is_of_the_header_alone() -> None:
    header = (
        b"From: Maria <maria@example.org>, x@example.org\r\nDate: 4 Mai 2023 10:00\r\n\r\nFrom: other@example.org\r\n"
    )
    sent = {"sent": "2023-05-04T10:00:00+00:00"}
    assert letterhead(header, "image/png") == {"from": "Maria <maria@example.org>", **sent}
    assert letterhead(header, "message/rfc822") == sent
    assert letterhead(b"", "image/png") == {}


def test_a_leap_second_is_a_time() -> None:
    assert moment("Sat, 31 Dec 2016 23:59:60 +0000") == datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_indented_text_in_a_message_is_not_code() -> None:
    text = "See\n\n    https://example.org/weir ada@example.org 2024-05-06\n\nIt costs $5 (https://example.org/shop) or 6$.\n"
    found = extract(mail(f"From: bob@example.org\n\n{text}".encode()))
    assert [link.target for link in found.links] == ["https://example.org/weir", "https://example.org/shop"]
    assert {"ada@example.org", "2024-05-06"} <= {entity.value for entity in found.entities}


@pytest.mark.parametrize(
    "around", ["%b", "Content-Type: multipart/alternative; boundary=a\n\n--a\n\nweir\n--a\n%b\n--a--\n"]
)
def test_start_part_of_related_parts_is_the_text(around: str) -> None:
    related = b"""Content-Type: multipart/related; boundary=b; start="<page>"

--b
Content-Type: image/png
Content-ID: <picture>

x
--b
Content-Type: text/html
Content-ID: <page>

<p>weir</p>
--b--
"""
    message = b"From: ada@example.org\n" + around.encode() % related
    assert mail(message).text == "weir"


def test_no_text_among_related_parts_is_lost() -> None:
    parts = b"Content-Type: text/html\n\n<p>weir</p>\n--b\nContent-Type: text/plain\n\nfooter of the list\n"
    message = b"From: ada@example.org\nContent-Type: multipart/related; boundary=b\n\n--b\n" + parts + b"--b--\n"
    assert mail(message).text == "weir\n\nfooter of the list"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b" =?utf-8?q?Wasserst=C3=A4nde?=  =?utf-8?q?_im_M=C3=A4rz?=", "Wasserstände im März"),
        (b"=?utf-8?B?ww==?= =?utf-8?B?tg==?=x", "öx"),
        (b"=?utf-8*de?q?M=C3=BChle?= and more", "Mühle and more"),
        (b"=?gb2312?B?sbQ=?=", "贝"),
        (b"=?unknown-8bit?q?M=FChle?=", "Mühle"),
        ("Mühle".encode(), "Mühle"),
        ("Mühle".encode("latin-1"), "Mühle"),
        (b"not =?utf-8?q?closed", "not =?utf-8?q?closed"),
    ],
)
def test_encoded_words_are_decoded(value: bytes, expected: str) -> None:
    assert words.text(value) == expected


# Text parts and attachments


_DISPOSITIONS = ("", "inline", "attachment", "inline; filename=a.txt", "attachment; filename=a.txt")


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/html", "text/x-patch", "text/csv", "text/vcard", "text/x-unknown"]
)
@pytest.mark.parametrize("disposition", _DISPOSITIONS)
@pytest.mark.parametrize("around", ["mixed", "related", "report"])
def test_words_of_a_text_part_are_in_text_or_in_a_file(kind: str, disposition: str, around: str) -> None:
    field = f"Content-Disposition: {disposition}\n" if disposition else ""
    part = f"Content-Type: {kind}; name=a.txt\n{field}\nlarches by the weir\n"
    head = f"From: ada@example.org\nContent-Type: multipart/{around}; boundary=b\n\n--b\n\nhello\n--b\n"
    message = f"{head}{part}--b--\n".encode()
    in_text = "larches by the weir" in mail(message).text
    in_files = sum(b"larches by the weir" in file.data for file in attachments(message))
    assert in_text + in_files == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_message_file_in_another_encoding_is_the_same_message(encoding: str) -> None:
    plain = "From: Ada <ada@example.org>\nSubject: Wehr\n\nDas Wehr läuft über.\n"
    assert mail(plain.encode(encoding)) == mail(plain.encode())


@given(st.text(st.sampled_from("①⑳㈱㍉Ⅳ纊水門の庭ｱｶ abc")))
def test_japanese_with_vendor_characters_is_decoded(text: str) -> None:
    half = "".join(letter for letter in text if letter not in "ｱｶ")
    assert decode(_iso_2022_jp(text), "iso-2022-jp").text == text
    assert decode(_euc_jp(half), "euc-jp").text == half


def _jis(letter: str) -> bytes:
    """Return row and column of JIS X 0208 for a character, from code page 932 (JIS X 0208:1997, annex 1)."""
    lead, trail = letter.encode("cp932")
    if lead >= 0xFA:  # the second copy of the IBM extensions; the first is at the end of the NEC extensions
        return bytes((0x79, 0x21))
    row = (lead - (0x81 if lead < 0xA0 else 0xC1)) * 2 + 0x21
    if trail >= 0x9F:
        return bytes((row + 1, trail - 0x7E))
    return bytes((row, trail - (0x20 if trail >= 0x80 else 0x1F)))


def _iso_2022_jp(text: str) -> bytes:
    out = b""
    for letter in text:
        raw = letter.encode("cp932")
        if letter.isascii():
            out += raw
        elif len(raw) == 1:
            out += b"\x1b(I" + bytes((raw[0] & 0x7F,)) + b"\x1b(B"
        else:
            out += b"\x1b$B" + _jis(letter) + b"\x1b(B"
    return out


def _euc_jp(text: str) -> bytes:
    return b"".join(
        letter.encode() if letter.isascii() else bytes(byte | 0x80 for byte in _jis(letter)) for letter in text
    )


def test_message_attached_as_bytes_is_read_with_its_files() -> None:
    inner = _with_files(("report.pdf", samples.pdf()))
    files = list(attachments(_with_files(("m.eml", inner), ("n.eml", b"\x00no message"))))
    assert [(file.name, file.media_type) for file in files if file.name != "n.eml"] == [
        ("m.eml", "message/rfc822"),
        ("report.pdf", "application/octet-stream"),
    ]
    assert files[0].data == inner
    assert files[1].data == samples.pdf()
