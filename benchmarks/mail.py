"""`python -m benchmarks.mail [COUNT]`: parsed messages per second, compared with the standard library's parser.

The corpus is generated from a fixed seed: letters and replies, half of them with HTML, every tenth with a PDF. The readers are
measured in turn, in CPU time of this process. The last line is JSON.
"""

from __future__ import annotations

import email
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from email.message import EmailMessage

from catchment.content.extract import extract
from catchment.content.normalize.mail import mail
from catchment.content.normalize.mail.attachments import attachments
from catchment.ledger.library.mail_grouping import conversation_names, envelope

_SENTENCE = "the pump at north mill was opened and a new seal is ordered für März über die Brücke water level key plot"
_ROUNDS = 3
_LETTERS = 500
"""Messages that start a conversation; each later message replies in one of these conversations."""


def corpus(count: int, vocabulary: Sequence[str] = tuple(_SENTENCE.split())) -> list[bytes]:
    """Return `count` messages, always the same, of about 6 KB each without attachments."""
    chance = random.Random(7)
    return [_message(chance, number, vocabulary) for number in range(count)]


def _message(chance: random.Random, number: int, vocabulary: Sequence[str]) -> bytes:
    earlier = range(number % _LETTERS, number, _LETTERS)
    message = EmailMessage()
    for hop in range(chance.randint(2, 6)):
        message["Received"] = (
            f"from mx{hop}.example.org (mx{hop}.example.org [192.0.2.{hop}]) by mx{hop + 1}.example.org with ESMTPS id"
            f" {number:x}{hop}; Fri, 01 Mar 2024 10:30:0{hop} +0100"
        )
    message["DKIM-Signature"] = "v=1; a=rsa-sha256; c=relaxed; d=example.org; b=" + "Ab3/" * 80
    message["From"] = f"Jörg Müller {number % 40} <p{number % 40}@example.org>"
    message["To"] = ", ".join(f"Person {n} <p{n}@example.org>" for n in range(chance.randint(1, 6)))
    message["Subject"] = f"{'Re: ' if earlier else ''}Wasserstände {number % _LETTERS}"
    message["Date"] = f"Fri, 01 Mar 2024 {number % 24:02}:{number % 60:02}:00 +0100"
    message["Message-ID"] = f"<{number}@example.org>"
    if earlier:
        message["References"] = " ".join(f"<{one}@example.org>" for one in earlier[-5:])
    said = [" ".join(chance.choices(vocabulary, k=60)) for _ in range(chance.randint(2, 12))]
    quoted = "\n".join(f"> {line}" for line in said[1:])
    message.set_content(f"{said[0]}\n\nOn Thu, 29 Feb 2024, Ada wrote:\n\n{quoted}\n\n-- \nAda\n")
    if number % 2:
        page = "".join(f"<div style='margin:0'><p>{line}</p></div>" for line in said)
        message.add_alternative(f"<html><body>{page}</body></html>", subtype="html")
    if number % 10 == 0:
        picture = chance.randbytes(chance.randint(20_000, 300_000))
        message.add_attachment(_page(said[0], picture), maintype="application", subtype="pdf", filename="plan.pdf")
    return message.as_bytes()


def _page(text: str, picture: bytes) -> bytes:
    """A PDF of one page with a line of text, and with the data of an image that is not shown."""
    said = b"BT /F1 9 Tf 40 800 Td (%s) Tj ET" % text.encode("latin-1", "replace")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 6 0 R >> >> >>",
        *(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(data), data) for data in (said, picture)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    page, places = b"%PDF-1.4\n", []
    for number, data in enumerate(objects, 1):
        places.append(len(page))
        page += b"%d 0 obj\n%s\nendobj\n" % (number, data)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(page))
    return page + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end


def _bare(messages: Sequence[bytes]) -> None:
    for data in messages:
        for part in email.message_from_bytes(data).walk():
            part.get_payload(decode=True)


def _documents(messages: Sequence[bytes]) -> None:
    for data in messages:
        mail(data)


def _with_passages(messages: Sequence[bytes]) -> None:
    for data in messages:
        extract(mail(data))


def _with_files(messages: Sequence[bytes]) -> None:
    for data in messages:
        mail(data)
        for _ in attachments(data):
            pass


def _seconds(work: Callable[[Sequence[bytes]], None], messages: Sequence[bytes]) -> float:
    start = time.process_time()
    work(messages)
    return time.process_time() - start


def main() -> None:
    """Measure all readers in turn, three times, and print the medians."""
    messages = corpus(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
    size = sum(map(len, messages))
    readers = {
        "bare parse (email, compat32)": _bare,
        "documents": _documents,
        "documents and passages": _with_passages,
        "documents and files": _with_files,
    }
    taken: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(_ROUNDS):
        for name, work in readers.items():
            taken[name].append(_seconds(work, messages))
    result = {name: round(len(messages) / statistics.median(seconds)) for name, seconds in taken.items()}
    print(f"{len(messages):,} messages, {size / 1e6:.1f} MB; messages per second of processor time")
    for name, speed in result.items():
        print(f"  {name:32}{speed:9,}")
    envelopes = [envelope(str(number), mail(data)) for number, data in enumerate(messages)]
    start = time.process_time()
    conversation_names(envelopes)
    result["threads"] = round(len(envelopes) / (time.process_time() - start))
    print(f"  {'threads':32}{result['threads']:9,}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
