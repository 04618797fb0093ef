"""Properties: YAML 1.2 values, the fast path for plain lines, and notes with invalid frontmatter."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.content.normalize import frontmatter, normalize
from catchment.model import Document, RawContent

_WORDS = [
    "a",
    "Ada Berg",
    "yes",
    "no",
    "null",
    "true",
    "2024-01-05",
    "2024-13-45",
    "12",
    "012",
    "1.5",
    "a/b",
    "a: b",
    "a:b",
    "x # y",
    "#x",
]
_WORDS += [
    "[[Note]]",
    "'q'",
    '"q"',
    "- x",
    "{a: 1}",
    "[a, b]",
    "[]",
    "[a, , b]",
    "&x",
    "*x",
    "!t",
    "|",
    ">",
    "%",
    "@x",
    "12:30",
    "~",
    "é",
    "a,b",
]
_WORDS += ["¹", "٣", "Ⅳ"]
_LINES = st.one_of(
    st.builds("{}: {}".format, st.sampled_from(["a", "b key", "c-d", "null", "1", "é"]), st.sampled_from(_WORDS)),
    st.builds("{}:".format, st.sampled_from(["a", "b"])),
    st.builds("{}- {}".format, st.sampled_from(["", "  ", "    "]), st.sampled_from(_WORDS)),
    st.sampled_from(["", "  ", "# comment", "---", "text"]),
)


def _note(text: str) -> Document:
    return normalize(RawContent(text.encode(), "note.md"))


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("tags: [a, b/c]", {"tags": ["a", "b/c"]}),
        ("tags:\n- a\n- b", {"tags": ["a", "b"]}),
        ("tags:\n  - a\n  - b", {"tags": ["a", "b"]}),
        ("tags: a, b", {"tags": "a, b"}),
        ("date: 2024-01-05", {"date": "2024-01-05"}),
        ("date: 2024-13-45", {"date": "2024-13-45"}),
        ("at: 2024-01-05T10:30:00", {"at": "2024-01-05T10:30:00"}),
        ("time: 12:30", {"time": "12:30"}),
        ("done: yes\nreal: true", {"done": "yes", "real": True}),
        ("none:\nalso: null", {"also": None, "none": None}),
        ("n: 012\nm: 12\nf: 1.50\nh: 0x1F", {"f": 1.5, "h": 31, "m": 12, "n": "012"}),
        ("big: .inf\nnan: .nan", {"big": ".inf", "nan": ".nan"}),
        ("2: a\nnull: b\ntrue: c", {"2": "a", "null": "b", "true": "c"}),
        ("deep:\n  er:\n    - x: 1", {"deep": {"er": [{"x": 1}]}}),
        ("url: https://example.org/a", {"url": "https://example.org/a"}),
        ("t: <% tp.file.title %>", {"t": "<% tp.file.title %>"}),
        ("z: 1\na: 2", {"a": 2, "z": 1}),
        ('a: "x\\0y"', {"a": "x\ufffdy"}),
        (r'icon: "\ud83c\udf3e"', {"icon": "🌾"}),
        ('icon: "\\ud83c\\udf3e"\ntags: [a, "\\ud83d"]\nn: 1', {"icon": "🌾", "n": 1, "tags": ["a", "\ufffd"]}),
        (r'{"k\uD83C\uDF3E": "\\ud83c \u00e9 \udf3e"}', {"k🌾": "\\ud83c é \ufffd"}),
        (
            "plain: \\ud83c\nsingle: '\\ud83c'\nicon: \"\\ud83c\"",
            {"icon": "\ufffd", "plain": r"\ud83c", "single": r"\ud83c"},
        ),
        ("", {}),
    ],
)
def test_values_become_json_as_yaml_1_2_reads_them(block: str, expected: dict[str, Any]) -> None:
    found, warnings = frontmatter.properties(block)
    assert found == expected
    assert warnings == ()
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("written", "title"),
    [
        (r'"a field \ud83c\udf3e"', "a field \U0001f33e"),
        (r'"\uD83C\uDF3E: \ud83c"', "\U0001f33e: \ufffd"),
        (r'"C:\\ud83c\\udf3e \ud83c\udf3e"', "C:\\ud83c\\udf3e \U0001f33e"),
        ("the\u2028weir", "the weir"),
        ("'the\x07weir'", "the weir"),
        ("the\x85weir \ufffe", "the weir"),
    ],
)
def test_title_is_read_as_other_programs_write_it(written: str, title: str) -> None:
    document = _note(f"---\ntitle: {written}\ntags: [a]\n---\nwords")
    assert (document.title, document.properties["tags"], document.warnings) == (title, ["a"], ())


@pytest.mark.parametrize("is_ascii", [False, True])
@given(title=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_title_written_as_json_is_read_back(is_ascii: bool, title: str) -> None:
    written = json.dumps(title, ensure_ascii=is_ascii)
    if not is_ascii:
        written = re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", written)
    assert _note(f"---\ntitle: {written}\n---\n").properties == {"title": title}


@settings(max_examples=400)
@given(st.lists(_LINES, max_size=5).map("\n".join))
def test_fast_path_agrees_with_the_yaml_parser(block: str) -> None:
    fast = frontmatter._simple(block)
    if fast is not None:
        assert fast == frontmatter._parsed(block)


@pytest.mark.parametrize(
    "block",
    [
        "title: {{date}}",
        "a: [",
        "\t- x",
        "- just\n- a list",
        "words alone",
        "a: !!python/object:os.system x",
        "a: *no",
    ],
)
def test_invalid_block_stays_in_text_with_a_warning(block: str) -> None:
    document = _note(f"---\n{block}\n---\n# Head\nwords")
    assert document.text == f"---\n{block}\n---\n# Head\nwords"
    assert document.properties == {}
    assert document.title == "Head"
    assert [warning for warning in document.warnings if warning.startswith("frontmatter")]


@pytest.mark.parametrize(
    ("block", "expected", "warning"),
    [
        ("tags: [book]\ncreated: {{date}}", {"tags": ["book"]}, "not valid YAML in line 3; omitted"),
        ("created: {{date:YYYY}}\ntags:\n- a", {"tags": ["a"]}, "not valid YAML in line 2; omitted"),
        ("<%* let x = 1 %>\na: 1", {"a": 1}, "not valid YAML in line 2; omitted"),
        ('a: 1\nb: <% f("x: y") %>\nc: 2', {"a": 1, "c": 2}, "not valid YAML in line 3; omitted"),
        ("a: [x\nb: 2", {"b": 2}, "not valid YAML in line 2; omitted"),
        ("a: *no\nb: 2", {"b": 2}, "not valid YAML in line 2; omitted"),
        ("tags:\n  - a\n  - {{b}}\n  - c\nd: e", {"tags": ["a", "c"], "d": "e"}, "not valid YAML in line 4; omitted"),
        ("# x\ndeep:\n  a: {{b}}\n  c: 1", {"deep": {"c": 1}}, "not valid YAML in line 4; omitted"),
        ("a: 1\nb:\n\t- x", {"a": 1}, "not valid YAML in line 3; omitted"),
        ("a: {{x}}\nb: {{y}}\nc: 1", {"c": 1}, "not valid YAML in line 2, 3; omitted"),
        (
            "title: Weir: a history\nn: 1",
            {"title": "Weir: a history", "n": 1},
            "not valid YAML in line 2; read as text",
        ),
        ("by: @ada", {"by": "@ada"}, "not valid YAML in line 2; read as text"),
        ('name: "The" weir\nn: 1', {"name": '"The" weir', "n": 1}, "not valid YAML in line 2; read as text"),
        ("name: A: 🌾\nn: 1", {"name": "A: 🌾", "n": 1}, "not valid YAML in line 2; read as text"),
        ('a: {{x}}\nb: "\\ud83c\\udf3e"', {"b": "🌾"}, "not valid YAML in line 2; omitted"),
        ("aliases:\n- A: B: C", {"aliases": [{"A": "B: C"}]}, "not valid YAML in line 3; read as text"),
        ('path: "C:\\Users\\ada"', {"path": "C:\\Users\\ada"}, "not valid YAML in line 2; read as text"),
        ('title: "The "old" weir"', {"title": 'The "old" weir'}, "not valid YAML in line 2; read as text"),
        ("title: 'The keeper's lamp'", {"title": "The keeper's lamp"}, "not valid YAML in line 2; read as text"),
        ("title: 20 %: a share", {"title": "20 %: a share"}, "not valid YAML in line 2; read as text"),
        ("title: % of all", {"title": "% of all"}, "not valid YAML in line 2; read as text"),
        ("title: - a dash", {"title": "- a dash"}, "not valid YAML in line 2; read as text"),
        ("title: *The* weir", {"title": "*The* weir"}, "not valid YAML in line 2; read as text"),
    ],
)
def test_line_that_is_not_yaml_leaves_the_other_properties(block: str, expected: dict[str, Any], warning: str) -> None:
    document = _note(f"---\n{block}\n---\nwords")
    assert document.properties == expected
    assert document.warnings == (f"frontmatter: {warning}",)
    assert document.text == "words"


@given(st.lists(_LINES, max_size=5).map("\n".join), st.integers(0, 4))
def test_placeholder_in_any_block_changes_no_other_property(block: str, place: int) -> None:
    try:
        expected, warnings = frontmatter.properties(block)
    except frontmatter.PropertiesError:
        return
    lines = block.split("\n")
    starts = [number for number, line in enumerate(lines) if line[:1].isalpha()] + [len(lines)]
    lines.insert(starts[place % len(starts)], "when: {{date}}")
    if expected and not warnings:
        assert frontmatter.properties("\n".join(lines))[0] == expected


def test_block_of_many_broken_properties_is_bounded() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: [{'*a, ' * 9}*a]\n" for n in range(1_000)) + "c: {{x}}\nd: 1"
    assert _note(f"---\n{bomb}\n---\n").properties == {"a": ["x", "x"], "d": 1}
    deep = "a: 1\nb: {{x}}\nc: " + "[" * 60_000
    assert _note(f"---\n{deep}\n---\n").warnings == ("frontmatter: nested too deeply; kept as text",)


def test_a_block_of_aliases_of_aliases_is_bounded() -> None:
    bomb = "a: &a [x, x]\n" + "\n".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(20)
    )
    assert _note(f"---\n{bomb}\n---\n").warnings == ("frontmatter: nested too deeply; kept as text",)
    assert _note("---\na: &a [*a]\n---\n").warnings == ("frontmatter: nested too deeply; kept as text",)
    assert _note(f"---\na: {'[' * 5_000}\n---\n").properties == {}
    assert _note(f"---\na: {'[' * 60_000}\n---\n").properties == {}


def test_the_body_starts_after_the_properties() -> None:
    document = _note("---\r\ntitle: T\r\n---\r\n\r\nwords\r\n")
    assert (document.title, document.text) == ("T", "\nwords\n")


@pytest.mark.parametrize(
    "text", ["---\nnever closed", "----\na: 1\n----", " ---\na: 1\n---", "text\n---\na: 1\n---\n", "---"]
)
def test_only_a_closed_block_at_the_start_is_properties(text: str) -> None:
    assert _note(text).text == text
    assert _note(text).warnings == ()


def test_title_author_and_times_come_from_properties_or_heading() -> None:
    document = _note(
        "---\ncreated: 2024-03-01T10:30:00+01:00\nupdated: 2024-03-02\nauthors: ['[[A/Ada|Ada B.]]', Nils]\nlang: de\n---\n"
    )
    assert document.created == datetime(2024, 3, 1, 9, 30, tzinfo=UTC)
    assert document.modified == datetime(2024, 3, 2, tzinfo=UTC)
    assert (document.author, document.language, document.title) == ("Ada B., Nils", "de", None)
    assert _note("```\n# no\n```\n# See [[Plan|the plan]] and [x](y.md) #\n").title == "See the plan and x"


def test_heading_between_two_rules_at_the_start_is_kept() -> None:
    document = _note("---\n# Weir\n---\nwords\n")
    assert (document.title, document.text, document.properties) == ("Weir", "---\n# Weir\n---\nwords\n", {})
    assert _note("---\n\n---\nwords\n").text == "words\n"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("The weir\n========\n\n## Sub\n", "The weir"),
        ("\n\nThe weir\n==\n\n## Later\n", "The weir"),
        ("# First\n\nThe weir\n---\n", "First"),
        ("words\nmore words\n---\n\n# Weir\n", "Weir"),
        ("- item\n---\n\n# Weir\n", "Weir"),
        ("| a |\n|---|\n\n# Weir\n", "Weir"),
        ("```\n# no\n````\n\n# Weir\n", "Weir"),
        ("<!--\n# no\n-->\n\n# Weir\n", "Weir"),
        ("<!-- never closed\n\n# Weir\n", "Weir"),
        ("# The `<!--` and `-->`\n", "The `<!--` and `-->`"),
        ("# ![a map](map.png)\n", "a map"),
        ("# Weir [![ci](a.svg)](b)\n", "Weir ci"),
        ('---\ntitle: "[[Weir|The weir]]"\n---\n', "The weir"),
    ],
)
def test_heading_that_is_the_title_is_outside_code_and_without_marks(text: str, title: str) -> None:
    assert _note(text).title == title
