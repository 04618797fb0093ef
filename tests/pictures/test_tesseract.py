"""Text on pictures of pages, by the substitute of Tesseract; at the end by the real one."""

from __future__ import annotations

import os
import shutil
from io import BytesIO

import pytest
from PIL import Image, ImageDraw, ImageFont

from catchment.content.pictures import tesseract as recognizing
from catchment.content.pictures.drawing import page_picture
from catchment.content.pictures.tesseract import text_on
from catchment.errors import ParseError
from catchment.model import PlacedWord
from tests.pictures.scans import Programs, png, scan, scanned

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
SENTENCE = "This is the token of the repository which nobody else has to know:"
GERMAN = (
    "Die Rechnung für die Quitten ist noch nicht bezahlt und wir bitten Sie, das bis zum Ende der Woche "
    "mit der beigelegten Überweisung zu tun, weil auch die Bäume für den Garten im Frühling"
)


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_page_is_read_and_its_words_placed_also_on_its_side(tesseract: Programs, turn: int) -> None:
    page = text_on(png(scan("Two words\nof three\n\nlines here", turn=turn)), ["eng"])
    assert (page.text, page.confidence, page.turn) == ("Two words\nof three\n\nlines here", 0.93, turn)
    assert [word.text for word in page.words] == ["Two", "words", "of", "three", "lines", "here"]
    assert page.words[1] == PlacedWord("words", 0, 41, 125, 20)
    upright = Image.open(BytesIO(page_picture(png(scan("x", turn=turn)), "image/png", 1, turn)))
    assert upright.width == 2 * upright.height


def test_picture_is_not_turned_if_its_text_is_certain(tesseract: Programs) -> None:
    text_on(png(scan("An upright page")), ["eng"])
    assert ["--psm 0" in call for call in tesseract.calls()] == [False]


@pytest.mark.parametrize(("confidence", "text"), [(93, "Doubtful text"), (60, "Doubtful text"), (59, ""), (1, "")])
def test_doubtful_text_is_left_out_with_its_places(tesseract: Programs, confidence: int, text: str) -> None:
    page = text_on(png(scan("Doubtful text", confidence=confidence)), ["eng"])
    assert (page.text, page.confidence, bool(page.words)) == (text, confidence / 100, bool(text))


def test_picture_without_words_has_no_text(tesseract: Programs) -> None:
    page = text_on(png(Image.new("L", (800, 800), 255)), ["eng"])
    assert (page.text, page.confidence, page.words) == ("", 0.0, ())


def test_page_in_another_installed_language_is_read_again(tesseract: Programs) -> None:
    picture = png(scan(GERMAN, language="deu"))
    assert text_on(picture, ["eng"]).text == GERMAN
    assert [call.split()[5] for call in tesseract.calls()] == ["eng", "deu+eng"]
    assert text_on(picture, ["eng", "deu"]).text == GERMAN
    assert [call.split()[5] for call in tesseract.calls()[2:]] == ["eng+deu", "deu+eng"]
    assert text_on(picture, ["deu", "eng"]).text == GERMAN
    assert len(tesseract.calls()) == 5


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("para-\ngraph", "paragraph"),
        ("Fahr-\nrad und Ver-\nöffentlichung", "Fahrrad und Veröffentlichung"),
        ("left-\nRight", "left-\nRight"),
        ("12-\nfold", "12-\nfold"),
        ("end-\n\nbegin", "end-\n\nbegin"),
        ("lot a -\nb", "lot a -\nb"),
    ],
)
def test_word_broken_at_the_end_of_a_line_is_joined(tesseract: Programs, lines: str, text: str) -> None:
    assert text_on(png(scan(lines, language="deu")), ["deu"]).text == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"{SENTENCE} {TOKEN} of anna", TOKEN),
        (f"{SENTENCE} {TOKEN[:20]}-\n{TOKEN[20:].lower()} of anna", TOKEN[:20]),
        ("Password: hunter2Horse!\nof anna", "hunter2Horse!"),
    ],
)
def test_secret_is_masked_and_its_word_has_no_place(tesseract: Programs, text: str, secret: str) -> None:
    page = text_on(png(scan(text)), ["eng"])
    assert secret not in page.text
    assert not any(secret[:12] in word.text for word in page.words)
    assert {"of", "anna"} <= {word.text for word in page.words}


def test_word_with_characters_that_end_lines_elsewhere_is_read(tesseract: Programs) -> None:
    page = text_on(png(scan("one\u2028two\x85three\x1cfour five", language="eng")), ["eng"])
    assert page.text.split(" ")[-1] == "five"


@pytest.mark.parametrize("word", ["!fail", "!die"])
def test_failed_program_is_an_error_of_the_page(tesseract: Programs, word: str) -> None:
    with pytest.raises(ParseError, match="the text recognition failed on this picture"):
        text_on(png(scan(word)), ["eng"])


def test_installed_program_is_noticed_at_once(tesseract: Programs) -> None:
    assert recognizing.version() == "tesseract 5.3.0-substitute"
    assert recognizing.installed() == {"deu", "eng", "fra"}
    tesseract.remove()
    assert (recognizing.version(), recognizing.installed()) == (None, frozenset())
    tesseract.install()
    assert recognizing.version()


def test_page_of_a_pdf_is_read(tesseract: Programs) -> None:
    data = scanned("First page", "Second page")
    for number, text in enumerate(("First page", "Second page"), 1):
        assert text_on(page_picture(data, "application/pdf", number), ["eng"]).text == text


@pytest.fixture
def real() -> None:
    """The real Tesseract, or an error with installation instructions."""
    if shutil.which("tesseract") is None:
        missing = "Tesseract is missing; on Debian: apt install tesseract-ocr"
        if os.environ.get("CATCHMENT_CI"):
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.mark.long
@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_real_program_reads_printed_words(real: None, turn: int) -> None:
    lines = "The keeper of the lamp\ncounts seven boats\nbelow the west pier\nin the harbour"
    page = text_on(png(_printed(lines, turn)), ["eng"])
    assert page.text.split() == lines.split()
    # Tesseract reads some pages on their side as well, and its places are then on that picture.
    if page.turn == turn:
        keeper = next(word for word in page.words if word.text == "keeper")
        assert 100 < keeper.left < 400
        assert 50 < keeper.top < 200
    assert page.turn in (turn, 0)


def _printed(text: str, turn: int) -> Image.Image:
    page = Image.new("L", (2000, 1400), 255)
    font = ImageFont.load_default(60)
    ImageDraw.Draw(page).multiline_text((150, 150), text, fill=0, font=font, spacing=40)
    return page.rotate(turn, expand=True)
