"""Targets for mail: messages, parts, header fields, encodings, quotations, conversations, invitations, signed bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from catchment.content.normalize.exchange.calendars import invitation
from catchment.content.normalize.mail import transport, words
from catchment.content.normalize.mail.attachments import attachments, single
from catchment.content.normalize.mail.body import unflowed
from catchment.content.normalize.mail.dates import moment
from catchment.content.normalize.mail.encrypted import signed_content, unarmored
from catchment.content.normalize.mail.replies import mark_replies
from catchment.errors import ParseError
from catchment.ledger.library.mail_grouping import Envelope, base_subject, conversation_names, envelope
from connectors.imap.names import decode_folder, encode_folder, identity, parse_locator
from tests.fuzz.promises import read, storable, twice
from tests.fuzz.target import Target, damaged, woven

_MESSAGE = """
From: "Ada, L." <ada@example.org>␤
From␠
To: a@b, (c) d <e@f>, g: h@i;␤
Subject: =?utf-8?q?=C3=A4?= =?utf-8?b?w6Q?=␤
Subject: =?hz?b?~{?=␤
Date: Sat, 31 Jan 2026 12:00:00 +0100␤
Date: Sat, 31 Jan 0001 12:00:00 +99999999999␤
Message-ID: <a@b>␤
References: <a@b> <c@d>␤
Received: from x; Sat, 31 Jan 2026 12:00:00 +0100␤
MIME-Version: 1.0␤
Content-Type: multipart/mixed; boundary=b␤
Content-Type: multipart/alternative; boundary="b"␤
Content-Type: multipart/signed; protocol="application/pgp-signature"; boundary=b␤
Content-Type: multipart/digest; boundary=b␤
Content-Type: message/rfc822␤
Content-Type: text/html; charset=utf-16␤
Content-Type: text/plain; charset=idna; format=flowed; delsp=yes␤
Content-Type: text/calendar␤
Content-Type: application/pkcs7-mime␤
Content-Type: application/ms-tnef; name=winmail.dat␤
Content-Type: text/enriched␤
Content-Type: x; name*0*=utf-8''%C3; name*1*=%A4; name*999=x␤
Content-Disposition: attachment; filename="../../x\\y.pdf"␤
Content-Transfer-Encoding: base64␤
Content-Transfer-Encoding: quoted-printable␤
Content-Transfer-Encoding: x-uuencode␤
Thread-Index: AdxAAAAAAAAAAAAAAAAAAAAAAAAAAAA=␤
␤
␤␤
--b␤
--b--␤
--
␠folded␤
words =C3=A4=␤
d29yZHM=␤
begin 644 x␤#86)C␤`␤end␤
> quoted␤
-- ␤
<p style="display:none">x</p>
"""
_FIELD = """
"
\\"
(
)
<
>
,
;
:
@
a
ada@example.org
=?utf-8?b?w6Q=?=
=?utf-8?q?=C3?=
=?utf-8?q?=A4?=
=?x-gbk?b?~{?=
=?iso-2022-kr?q?=1B?=
=?utf-7?q?+AAA-?=
<a@b>
␠
␤␠
"""
_DATE = """
Sat,
31
Jan
2026
0001
12:00:00
25:61:61
+0100
-9999
+99999999999999999999
(CET)
EST
-
/
:
␠
"""
_QUOTE = """
> a␤
>> b␤
On Sat, 31 Jan 2026 at 12:00, Ada <a@b> wrote:␤
-----Original Message-----␤
From: Ada␤
Sent: Saturday␤
To: Bob␤
Subject: x␤
__________________________␤
-- ␤
Best regards,␤
Ada␤
Sent from my iPhone␤
␤
words␤
:␤
"""
_CALENDAR = """
BEGIN:VCALENDAR␤
METHOD:REQUEST␤
BEGIN:VEVENT␤
END:VEVENT␤
SUMMARY:x\\, y\\n␤
DTSTART;TZID="Europe/Berlin":20260131T120000␤
DTEND:99999999␤
ATTENDEE;CN="Ada":mailto:a@b␤
ORGANIZER;CN=
;X="
:
␤␠
"""
_ARMOR = """
-----BEGIN PGP MESSAGE-----␤
-----END PGP MESSAGE-----␤
-----BEGIN PGP SIGNED MESSAGE-----␤
-----BEGIN PGP SIGNATURE-----␤
-----END PGP SIGNATURE-----␤
Hash: SHA256␤
␤
- dashed␤
words␤
"""
_SIGNED = (
    bytes.fromhex(
        "3080 06092a864886f70d010702 a080 3080 020101 3100 3080 06092a864886f70d010701 a080 2480".replace(" ", "")
    )
    + b"\x04\x13Subject: x\n\nwords\n\n"
    + bytes(12)
)


def targets() -> Iterator[Target]:
    """Return the targets for all parts of mail."""
    yield Target("message", _message, woven(_MESSAGE, most=40))
    yield Target("mail-part", _part, woven(_MESSAGE, most=12))
    yield Target("transport", _transport, woven("=C3\n=\n=␤\nd29y\n==\nbegin 644 x␤\n#86)C␤\n~\nend␤\n`␤\n M"))
    yield Target("people", _people, woven(_FIELD))
    yield Target("header-text", _header_text, woven(_FIELD))
    yield Target("mail-date", _date, woven(_DATE, most=8))
    yield Target("quotations", _quotations, woven(_QUOTE, most=40))
    yield Target(
        "flowed", _text(lambda text: unflowed(text, True) + unflowed(text, False)), woven("> \n ␤\n␠␤\n-- ␤\na")
    )
    yield Target("invitation", _text(invitation), woven(_CALENDAR, most=40))
    yield Target("armor", _text(lambda text: unarmored(text)[0]), woven(_ARMOR))
    yield Target("signed-mail", _signed, damaged(_SIGNED))
    yield Target("conversations", _conversations, woven("Re: \nAW[2]: \n[list] \n(fwd)\nx\n␤\na@b\n<\n "))
    yield Target("folder-names", _folder_names, woven("&\n-\n&AOQ-\n&-\n&2AA-\n/\nINBOX\n&AAA-\n,"))
    yield Target("locators", _locators, woven(";UIDVALIDITY=\n;UID=\n;PART=\n1\n2.1\nINBOX\n٣\n;"))


def _text(function: Callable[[str], str]) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        assert function(text) == function(text)

    return check


def _message(data: bytes) -> None:
    """A message is read or refused; every attachment has a name without folders and a unique path."""
    document = read(data, "m.eml")
    if document is not None:
        storable(document.properties)
        conversation_names([envelope("m", document)])
    try:
        found = list(attachments(data))
    except ParseError:
        return
    assert len({file.part for file in found}) == len(found)
    for file in found:
        assert file.name
        assert not {"/", "\\", "\x00"} & set(file.name)
        assert file.name not in (".", "..")
        storable((file.name, file.media_type, file.content_id))
        assert single(data, "1").part == "1"


def _part(data: bytes) -> None:
    try:
        file = single(data, "2.1")
    except ParseError:
        return
    storable((file.name, file.media_type, file.content_id))


def _transport(data: bytes) -> None:
    for encoding in ("base64", "quoted-printable", "x-uuencode", "7bit", "unknown"):
        assert len(transport.decode(data, encoding)) <= 64 * len(data)


def _people(data: bytes) -> None:
    found = words.people(data)
    assert len(found) <= 500
    storable(found)
    storable(words.identifiers(data))


def _header_text(data: bytes) -> None:
    said = words.text(data)
    storable(said)
    assert "\n" not in said
    name = words.file_name(words.raw(data))
    storable(name)
    assert len(name) <= 200
    assert not {"/", "\\"} & set(name)


def _date(data: bytes) -> None:
    said = moment(words.raw(data))
    assert said is None or said.tzinfo is UTC


def _quotations(data: bytes) -> None:
    """Splitting quotations drops only quotation marks and empty lines."""
    text = data.decode("utf-8", "replace")
    said = mark_replies(text)
    assert set(text.split()) - {"--", "—", "—-", "__"} <= {word.lstrip(">") for word in said.split()} | set(
        said.split()
    )


def _signed(data: bytes) -> None:
    inner = signed_content(data)
    assert inner is None or len(inner) <= len(data)


def _conversations(data: bytes) -> None:
    """Conversations are independent of the order of messages, and every message has a conversation."""
    lines = data.decode("utf-8", "replace").split("\n")[:8]
    messages = [
        Envelope(
            str(n), f"{n % 3}@example.org", (line, f"{n % 2}@example.org"), line, datetime(2026, 1, 1 + n, tzinfo=UTC),
            line, frozenset({line}), "",
        )
        for n, line in enumerate(lines)
    ]  # fmt: skip
    found = twice(lambda: conversation_names(messages))
    assert found is not None
    assert found == conversation_names(reversed(messages))
    assert found.keys() == {message.key for message in messages}
    for line in lines:
        base_subject(line)


def _folder_names(data: bytes) -> None:
    raw = data.replace(b"\x00", b"").replace(b"\r", b"").replace(b"\n", b"")
    text = decode_folder(raw)
    storable(text)
    assert encode_folder(text) == raw or raw.upper() == b"INBOX"


def _locators(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    at = parse_locator(text)
    if at is not None:
        assert parse_locator(at.locator) == at
    identity(text, 1, text)
