"""Form fields of a PDF: each filled field is read once, with its name (ISO 32000-2, 12.7)."""

from __future__ import annotations

import pytest

from catchment.content.normalize import normalize
from catchment.model import Document, RawContent
from tests.normalize.pdf_samples import page, pdf, stream

_WORDS = b"BT /F1 12 Tf 50 750 Td (Weir inspection) Tj ET"
_STATES = {
    90: stream(b"0 0 m 5 5 l S", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9]"),
    91: stream(b"", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9]"),
}
_YES = b"/AP << /N << /Yes 90 0 R /Off 91 0 R >> >>"


def _form(
    *fields: bytes,
    others: dict[int, bytes] = _STATES,
    top: tuple[int, ...] = (10,),
    words: bytes = _WORDS,
    form: bytes = b"/AcroForm",
    entries: bytes = b"",
) -> bytes:
    """Return a form; `fields` are widgets from object 10 on, and `top` the numbers in its list of fields."""
    widgets = {
        10 + place: b"<< /Type /Annot /Subtype /Widget /F 4 /P 3 0 R /Rect [50 %d 200 %d] %s >>"
        % (700 - 20 * place, 715 - 20 * place, field)
        for place, field in enumerate(fields)
    }
    references, listed = (b" ".join(b"%d 0 R" % number for number in numbers) for numbers in (widgets, top))
    font = b"/Font << /F1 5 0 R >>"
    objects = page(
        words,
        font,
        b"%s << /Fields [%s] /DR << %s >> %s >>" % (form, listed, font, entries),
        b"/Annots [%s]" % references,
    )
    objects[5] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    return pdf(objects | widgets | others)


def _read(data: bytes) -> Document:
    return normalize(RawContent(data, "a.pdf"))


_DRAWN = {92: stream(b"/Tx BMC BT /F1 12 Tf 2 3 Td (Quill) Tj ET EMC", b"/Subtype /Form /BBox [0 0 150 15]")}
_ADDRESS = {20: b"<< /FT /Tx /T (address) /V (inherited) /Kids [10 0 R 11 0 R] >>"}
_LOOP = {20: b"<< /FT /Tx /T (p) /Parent 20 0 R /Kids [10 0 R 20 0 R] >>"}
_NAME = {20: b"<< /FT /Tx /T (Name) /V (Quill) /Kids [10 0 R 11 0 R] >>"}
_COLOUR = b"<< /FT /Btn /Ff 49152 /T (Colour) /V /%s %s /Kids [10 0 R 11 0 R] >>"
_BUTTON = b"/Parent 20 0 R /AS /%s /AP << /N << /%s 90 0 R /Off 91 0 R >> >>"


def _choice(state: bytes, labels: bytes, first: bytes, second: bytes) -> bytes:
    """Return a form with two radio buttons, of which `state` is selected."""
    buttons = (_BUTTON % (name if name == state else b"Off", name) for name in (first, second))
    return _form(*buttons, top=(20,), others=_STATES | {20: _COLOUR % (state, labels)})


_PLACES = b"/FT /Ch /Ff 131072 /T (Place) /Opt [[(h) (Henleyford)] [(x) (Exton)]]"
_CROPS = b"/FT /Ch /Ff 2097152 /T (Crops) /Opt [(Wheat) (Barley) (Oats)]"


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (_form(b"/FT /Tx /T (Name) /V (Quill)"), "- Name: Quill"),
        (_form(b"/FT /Tx /T (Name) /V (Quill) /AP << /N 92 0 R >>", others=_DRAWN), "- Name: Quill"),
        (_form(b"/FT /Tx /T (f1_01) /TU (First name) /V (Quill)"), "- f1_01 (First name): Quill"),
        (_form(b"/FT /Tx /T <FEFF00530074007200610DF> /V <FEFF041704300440044F>"), "- Stra\u0df0: Заря"),
        (_form(b"/FT /Tx /Ff 4096 /T (Notes) /V (first\\rsecond\\n\\n# third)"), "- Notes: first\n  second\n  # third"),
        (_form(b"/FT /Tx /T (Notes) /V 92 0 R", others={92: stream(b"long text")}), "- Notes: long text"),
        (_form(b"/FT /Tx /T (Name) /V ()", b"/FT /Tx /T (Age)", top=(10, 11)), ""),
        (_form(b"/FT /Tx /Ff 8192 /T (Word) /V (sesame)"), ""),
        (_form(b"/FT /Btn /Ff 65536 /T (Send) /MK << /CA (Send) >>"), ""),
        (_form(b"/FT /Btn /T (Agreed) /V /Yes /AS /Yes " + _YES), "- Agreed: Yes"),
        (_form(b"/FT /Btn /T (Agreed) /V /Yes " + _YES), "- Agreed: Yes"),
        (_form(b"/FT /Btn /T (Agreed) /V /Yes /AS /Yes"), "- Agreed: Yes"),
        (_form(b"/FT /Btn /T (Agreed) /V /Off /AS /Off " + _YES), ""),
        (_choice(b"blue", b"", b"red", b"blue"), "- Colour: blue"),
        (_choice(b"1", b"/Opt [(red) (blue)]", b"0", b"1"), "- Colour: blue"),
        (_choice(b"Off", b"", b"red", b"blue"), ""),
        (_form(_PLACES + b"/V (h)"), "- Place: Henleyford"),
        (_form(_PLACES + b"/V (Elsewhere)"), "- Place: Elsewhere"),
        (_form(_CROPS + b"/V [(Wheat) (Oats)] /I [0 2]"), "- Crops: Wheat, Oats"),
        (_form(_CROPS + b"/V (Oats)"), "- Crops: Oats"),
        (
            _form(b"/Parent 20 0 R /T (street) /V (Mill Lane)", b"/Parent 20 0 R /T (town)", top=(20,), others=_ADDRESS),
            "- address.street: Mill Lane\n- address.town: inherited",
        ),
        (_form(b"/Parent 20 0 R", b"/Parent 20 0 R", top=(20,), others=_NAME), "- Name: Quill"),
        (_form(b"/Parent 20 0 R /T (a) /V (x)", top=(20,), others=_LOOP), "- p.a: x"),
        (_form(b"/FT /Tx /T (Name) /V (Quill)", top=()), "- Name: Quill"),
        (_form(b"/FT /Tx /T (Name) /V (Quill)", form=b"/Formless"), "- Name: Quill"),
        (_form(b"/FT /Tx /Ff 8192 /T (Word) /V (sesame)", form=b"/Formless"), ""),
        (_form(b"/FT /Tx /V (Quill)"), "- Quill"),
    ],
    ids=[
        "text", "drawn text", "title", "Cyrillic", "lines", "long text", "empty", "password", "push button", "check box",
        "check box without a state", "check box without appearances", "cleared check box", "radio button", "named radio button",
        "no radio button", "choice", "typed choice", "several choices", "one of several choices", "children", "two widgets",
        "loop", "not in the list", "no form", "password without a form", "no name",
    ],
)  # fmt: skip
def test_filled_fields_are_read_with_their_names(data: bytes, fields: str) -> None:
    document = _read(data)
    assert document.text == "\n\n".join(filter(None, ("Weir inspection", fields)))
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (b"52 703", "Weir inspection\n\nQuill"),
        (b"52 300", "Weir inspection\n\nQuill\n\n- Name: Quill"),
    ],
)
def test_value_that_the_page_has_in_the_same_place_is_read_once(place: bytes, text: str) -> None:
    words = _WORDS + b" BT /F1 12 Tf %s Td (Quill) Tj ET" % place
    assert _read(_form(b"/FT /Tx /T (Name) /V (Quill)", words=words)).text == text


def test_words_beside_a_short_value_do_not_hide_it() -> None:
    words = b"BT /F1 12 Tf 52 703 Td (11 harbours) Tj ET"
    assert _read(_form(b"/FT /Tx /T (Count) /V (1)", words=words)).text == "11 harbours\n\n- Count: 1"


def test_form_in_xml_gives_a_warning_unless_it_has_fields_too() -> None:
    data = {92: stream(b"<xdp:xdp xmlns:xdp='http://ns.adobe.com/xdp/'/>")}
    assert _read(_form(top=(), others=data, entries=b"/XFA 92 0 R")).warnings == (
        "the form was not read: it is an XFA form; print it to a PDF with its own program",
    )
    both = _read(_form(b"/FT /Tx /T (Name)", others=data, entries=b"/XFA 92 0 R"))
    assert both.warnings == ()


def test_fields_beyond_the_limit_give_a_warning() -> None:
    count = 10_001
    data = _form(
        *(b"/FT /Tx /T (n%d) /V (%d)" % (number, number) for number in range(count)),
        top=(),
        form=b"/Formless",
        others={},
    )
    document = _read(data)
    assert document.text.count("\n- n") == 10_000
    assert document.warnings == (
        "pages read by PDFium, without headings and tables: 1",
        "only the first 10,000 comments, links and form fields were read (a fixed limit)",
    )


_SECRET = b"/FT /Tx /Ff 8192 /T (Word) /V (sesame%d)"


@pytest.mark.parametrize(
    ("words", "values", "fields"),
    [
        (b"", 0, ""),
        (b"", 1, "- n0: Quill0"),
        (_WORDS, 40, "\n".join(f"- n{number}: Quill{number}" for number in range(40))),
    ],
    ids=["only passwords", "no words", "few words and many values"],
)
@pytest.mark.parametrize("form", [b"/AcroForm", b"/Formless"])
def test_values_are_no_text_of_a_page_with_few_words(words: bytes, values: int, fields: str, form: bytes) -> None:
    filled = (b"/FT /Tx /T (n%d) /V (Quill%d)" % (number, number) for number in range(values))
    secret = (_SECRET % number for number in range(2))
    document = _read(_form(*filled, *secret, top=tuple(range(10, 12 + values)), words=words, form=form))
    assert document.text == "\n\n".join(filter(None, ("Weir inspection" if words else "", fields)))
