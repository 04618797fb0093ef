"""Definitions in source code and passages at definitions. Each language has a golden pair in tests/normalize."""

from __future__ import annotations

import subprocess
import sys

import pytest

from catchment.content.extract import extract
from catchment.content.extract.chunks import LARGEST
from catchment.content.extract.code import definitions, passages
from catchment.model import Document, EntityKind
from tests.extract.reading import details, spans

_FILLER = "        x = 1  # eins, zwei – drei\n" * 40


def _class(name: str) -> str:
    return f"class {name}:\n    # Öffnet alles.\n    @cached\n    def open(self):\n{_FILLER}\n    def close(self):\n{_FILLER}\n"


def test_a_long_file_is_cut_along_its_classes_and_functions() -> None:
    text = f"import os\n\n\n{_class('Gate')}{_class('Weir')}"
    found = passages(text, definitions(text, "text/x-python"))
    assert [chunk.heading for chunk in found] == ["Gate", "Gate > close", "Weir", "Weir > close"]
    assert text[found[2].start :].startswith("class Weir:")
    assert "".join(text[chunk.start : chunk.end] for chunk in found) == text


def test_comments_and_decorators_belong_to_the_definition_below() -> None:
    text = f"{_class('Gate')}# Tells how high\n# the water is.\n@cached\ndef level():\n{_FILLER}"
    found = passages(text, definitions(text, "text/x-python"))
    assert text[found[-1].start :].startswith("# Tells how high\n")
    assert found[-1].heading == "level"


def test_offsets_count_characters_and_not_bytes() -> None:
    text = "# ä 🐝 €\nclass Größe:\n    def höhe(self): ...\n"
    found = extract(Document(text, "text/x-python"))
    assert spans(text, tuple(e for e in found.entities if e.kind is EntityKind.SYMBOL)) == ["Größe", "höhe"]


def test_definitions_of_invalid_code_are_found() -> None:
    found = definitions("class A:\n    def f(self:\n        pass\n\ndef g():\n    pass\n", "text/x-python")
    assert "g" in {one.name for one in found}


@pytest.mark.parametrize("media_type", ["text/markdown", "text/plain", "text/x-fortran", "application/json"])
def test_unknown_language_has_no_definitions(media_type: str) -> None:
    assert definitions("class A:\n    pass\n", media_type) == []


@pytest.mark.parametrize("text", ["(" * 100_000, "{" * 100_000, "[({" * 30_000])
def test_unbounded_brackets_are_not_parsed(text: str) -> None:
    assert definitions(text, "text/x-c++") == []


def test_very_long_line_is_split() -> None:
    text = "function a(){return 1}" * 2_000
    found = passages(text, definitions(text, "text/javascript"))
    assert all(chunk.end - chunk.start <= LARGEST for chunk in found)
    assert found[-1].end == len(text)


def test_variable_is_a_function_only_if_it_holds_one() -> None:
    text = "const a = () => 1;\nconst b = 2;\nlet c = function () {};\n"
    found = [(one.name, one.kind) for one in definitions(text, "text/javascript")]
    assert found == [("a", "function"), ("c", "function")]
    assert details(text, EntityKind.SYMBOL) == []


def test_any_unicode_letter_in_a_script_is_read() -> None:
    marks = "".join(
        f"Z{{{chr(code)} a{chr(code)}=1 ${chr(code)} <<{chr(code)}\n" for code in range(0x10000, 0x110000, 0x1000)
    )
    script = f"wehr_öffnen() {{ echo 🌊; }}\n{marks}"
    (found,) = definitions("wehr_öffnen() { echo 🌊; }\n", "text/x-sh")
    assert found.name == "wehr_öffnen"
    read = (
        "import sys; from catchment.content.extract.code import definitions; definitions(sys.stdin.read(), 'text/x-sh')"
    )
    # Whether memory beyond the table is mapped differs between processes.
    ended = [
        subprocess.run([sys.executable, "-X", "utf8", "-c", read], input=script.encode(), check=False).returncode
        for _ in range(4)
    ]
    assert ended == [0, 0, 0, 0]
