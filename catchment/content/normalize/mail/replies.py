"""Mark quotations and the signature in the plain text of a message.

Text is never removed: quotations become block quotations (`> `), and the signature follows a line `-- ` (RFC 3676). Layout is
the first evidence (quote marks, header blocks, an introduction above marks); phrases of some twenty languages decide the rest.
"""

from __future__ import annotations

import re

SIGNATURE = "-- "
"""The line above a signature. An empty line precedes it; otherwise Markdown would make the line above a heading."""

_MAX_INTRODUCTION = 4
_MAX_SIGNATURE = 25
_MAX_CLOSING = 8
_MAX_FOOTER = 7
_MAX_LINE = 300

_FROM = (
    "from|von|de|da|van|från|fra|od|lähettäjä|kimden|feladó|от|від|από|expéditeur|expéditeur|mittente|remitente"
    "|发件人|寄件者|寄件人|差出人|送信者|보낸 사람|מאת|من|de la|frá|gửi từ"
)
_HEADER_LINE = re.compile(r"[ \t]*[*_]{0,2}[^\W\d_][\w .'’-]{0,24}[*_]{0,2}[ \t]?[:：][*_]{0,2}(?:[ \t]|$)")
_FROM_LINE = re.compile(
    rf"[ \t]*[*_]{{0,2}}(?:{_FROM})[*_]{{0,2}}[ \t]?[:：][*_]{{0,2}}[ \t]*[^\s].{{0,{_MAX_LINE}}}$", re.IGNORECASE
)
_SEPARATOR = re.compile(r"[ \t]*(?:[-_=]{3,}[ \t]?[^\W\d_][^-_=\n]{3,60}[ \t]?[-_=]{3,}|[-_=]{20,})[ \t]*$")
_WROTE = re.compile(
    r"(?:wrote|writes|schrieb(?: am)?|a écrit|escribi[óo]|ha scritto|escreveu|schreef|skrev|skrifaði|kirjoitti"
    r"|napisał(?:\(a\)|a)?|pisze|napsal(?:\(a\)|a)?|napísal(?:\(a\)|a)?|írta|a scris|yazdı|şunları yazdı"
    r"|написала?|пишет|пише|έγραψε|写道|寫道|のメール|님이 작성|כתב|كتب|đã viết)",
    re.IGNORECASE,
)
_PLACED = re.compile(r"\d[./: ,-]|@")
_WORDED_INTRODUCTION = re.compile(
    rf"(?:{_WROTE.pattern}).{{0,120}}[:：][ \t]*$|^.{{0,20}}(?:\d|@).{{0,200}}[:：][ \t]*$", re.IGNORECASE
)
_SENT_FROM = re.compile(
    r"[ \t_*\[]{0,4}(?:sent (?:from|via|using)|get outlook for|von meinem|gesendet (?:von|mit)|diese nachricht wurde von"
    r"|envoyé (?:de|depuis)|enviado (?:desde|do|de)|inviato da|verzonden (?:vanaf|met)|verstuurd vanaf|skickat från"
    r"|sendt fra|hent outlook|lähetetty|wysłan[eo] z|odesláno z|отправлено (?:с|из)|надіслано з|から送信|发自我的)"
    r"(?: (?:my|mein\w*|mon|mi|il mio|o meu|meu|min|mijn|mojego|mého|моего|iPhone|iPad|Android|iOS|Mail|Outlook|Yahoo"
    r"|Samsung|Galaxy|Proton\w*|Gmail|BlackBerry)\b|<)[^.!?\n]{0,80}$",
    re.IGNORECASE,
)
_DELIMITER = re.compile(r"(?:--|—-?|__)[ \t]*")
_FOOTER = re.compile(r"[-_=]{30,}")
_INITIALLED = re.compile(r"[-–—/~][ \t]?[^\W\d_a-z][\w.'’-]{0,20}(?: [^\W\d_][\w.'’-]{0,20}){0,2}")
_CLOSING = re.compile(
    r"(?:(?:with )?(?:best|kind|warm|many)?(?: (?:and )?\w+)? ?regards|thanks (?:&|and) regards"
    r"|best(?: wishes)?|all the best|cheers|sincerely"
    r"|yours (?:sincerely|faithfully|truly)|many thanks|thanks(?: again| in advance)?|thank you"
    r"|mit (?:freundlichen|besten|herzlichen|lieben) grü(?:ß|ss)en|(?:viele|liebe|beste|herzliche|schöne|freundliche)n? "
    r"grü(?:ß|ss)e|grü(?:ß|ss)e?|gru(?:ß|ss)|mfg|lg|vg"
    r"|cordialement|bien (?:cordialement|à vous)|meilleures salutations|saludos(?: cordiales)?|un saludo|atentamente"
    r"|cordiali saluti|distinti saluti|saluti|atenciosamente|cumprimentos|abraços"
    r"|met vriendelijke groet(?:en)?|groet(?:en|jes)?"
    r"|med vänliga? hälsning(?:ar)?|hälsningar|mvh|med venlig hilsen|venlig hilsen|hilsen|kh|vennlig hilsen"
    r"|ystävällisin terveisin|terveisin|pozdrawiam|z poważaniem|z powazaniem|s pozdravem|s úctou|üdvözlettel"
    r"|cu respect|saygılarımla|с уважением|з повагою|με εκτίμηση|よろしくお願いいたします|此致)[ \t]*[,.!]?[ \t]*$",
    re.IGNORECASE,
)


def mark_replies(text: str) -> str:
    """Return the text with quotations as block quotations and the signature below `-- `, in the same order."""
    lines = [line.rstrip() if line.strip() else "" for line in text.split("\n")]
    cut = _original(lines)
    lines[cut:] = [f"> {line}" if line else ">" for line in lines[cut:]]
    _quote_introductions(lines)
    _mark_signature(lines)
    return "\n".join(lines).strip("\n")


def is_quoted(line: str) -> bool:
    """Return whether a line is in a block quotation."""
    return line.startswith(">")


def _original(lines: list[str]) -> int:
    """Return the first line of an original message that is copied without quote marks, or the number of lines."""
    for place, line in enumerate(lines):
        if not line or is_quoted(line) or len(line) > _MAX_LINE:
            continue
        if _SEPARATOR.match(line) and _has_header_block(lines, place + 1):
            return place
        if _FROM_LINE.match(line) and _has_header_block(lines, place):
            return place
        if line.endswith((":", "：")) and (start := _unmarked_introduction(lines, place)) is not None:
            return start
    return len(lines)


def _has_header_block(lines: list[str], place: int) -> bool:
    """Return whether a sender and two more header lines follow, with only empty or folded lines between them."""
    following = [line for line in lines[place : place + 12] if line][:5]
    if not following or not any(_FROM_LINE.match(line) for line in following[:2]):
        return False
    return sum(1 for line in following if _HEADER_LINE.match(line)) >= 3


def _unmarked_introduction(lines: list[str], place: int) -> int | None:
    """Return the first line of an "On … wrote:" that ends at `place`; None if the text below has quote marks."""
    following = next((line for line in lines[place + 1 : place + 8] if line), "")
    if is_quoted(following) or not following:
        return None
    for start in range(place, max(place - 3, -1), -1):
        if not lines[start] or is_quoted(lines[start]):
            return None
        words = " ".join(lines[start : place + 1])
        if len(words) > _MAX_LINE:
            return None
        if _PLACED.search(words) and _WROTE.search(words):
            is_whole = start == 0 or not lines[start - 1] or is_quoted(lines[start - 1])
            if is_whole:
                return start
    return None


def _quote_introductions(lines: list[str]) -> None:
    """Include "On … wrote:" above a block quotation in the quotation."""
    for place in range(1, len(lines)):
        if not is_quoted(lines[place]) or is_quoted(lines[place - 1]):
            continue
        last = place - 1
        while last >= 0 and not lines[last] and place - last <= 6:
            last -= 1
        if last < 0 or is_quoted(lines[last]) or not lines[last].endswith((":", "：")):
            continue
        start = last
        while start > 0 and lines[start - 1] and not is_quoted(lines[start - 1]) and last - start < _MAX_INTRODUCTION:
            start -= 1
        words = " ".join(lines[start : last + 1])
        for first in range(last, start - 1, -1):
            words = " ".join(lines[first : last + 1])
            if len(words) <= _MAX_LINE and _WORDED_INTRODUCTION.search(words) and _stands_first(lines, first, start):
                lines[first:place] = [f"> {line}" if line else ">" for line in lines[first:place]]
                break


def _stands_first(lines: list[str], first: int, start: int) -> bool:
    """Return whether an introduction may begin here: at the first line of its paragraph or at a line with a date."""
    return first == start or bool(re.search(r"\d{1,2}[:.h]\d{2}|\d{4}", lines[first]))


def _mark_signature(lines: list[str]) -> None:
    """Insert `-- ` above the signature of the last unquoted stretch."""
    stop = len(lines)
    while stop and (not lines[stop - 1] or is_quoted(lines[stop - 1])):
        stop -= 1
    start = stop
    while start and not is_quoted(lines[start - 1]):
        start -= 1
    place = _signature(lines, start, stop)
    if place is None:
        return
    if _DELIMITER.fullmatch(lines[place]):
        del lines[place]
    before = place
    while before > start and not lines[before - 1]:
        before -= 1
    lines[before:place] = ["", SIGNATURE] if before else [SIGNATURE]
    after = before + (2 if before else 1)
    while after < len(lines) and not lines[after]:
        del lines[after]


def _signature(lines: list[str], start: int, stop: int) -> int | None:
    """Return the first line of the signature in `lines[start:stop]`, or the delimiter above it; None without one."""
    earliest = max(start, stop - _MAX_SIGNATURE)
    for place in range(stop - 1, earliest - 1, -1):
        if _DELIMITER.fullmatch(lines[place]) or (stop - place <= _MAX_FOOTER and _FOOTER.fullmatch(lines[place])):
            return place
    if stop > start and _is_footer(lines, start, stop - 1):
        return stop - 1
    for place in range(max(start + 1, stop - _MAX_CLOSING), stop):
        if _CLOSING.match(lines[place].strip(" *_")) and all(map(_fits_signature, lines[place + 1 : stop])):
            return place
    return None


def _is_footer(lines: list[str], start: int, last: int) -> bool:
    """Return whether the last line, below an empty line, is the footer of a mail app or a name after a dash."""
    if lines[last].lower().startswith("get outlook for"):
        return True
    is_below = last == start or not lines[last - 1]
    return is_below and bool(_SENT_FROM.match(lines[last]) or _INITIALLED.fullmatch(lines[last]))


def _fits_signature(line: str) -> bool:
    """Return whether a line below a closing formula is not a sentence: a name, an address, a number."""
    return len(line) <= 80 and not (line.endswith((".", "?", "!", "。")) and line.count(" ") >= 3)
