"""Read Rich Text Format (RTF 1.9.1), and mail in HTML inside it (MS-OXRTFEX). Emphasis, colours and pictures are omitted.

No recursion: open groups are a list of states. `flow` collects text, `fonts` decodes it.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import NamedTuple

from catchment.content.normalize.html import html
from catchment.content.normalize.office import drawings
from catchment.content.normalize.office.extraction import Metadata
from catchment.content.normalize.office.flow import field_address
from catchment.content.normalize.office.rtf.fonts import NO_FONT, Fonts
from catchment.content.normalize.office.rtf.rtf_flow import BREAKS, RtfFlow
from catchment.errors import ParseError

RTF = "application/rtf"
_TOKEN = re.compile(
    rb"\\([A-Za-z]{1,32})(-?[0-9]{1,10})? ?|\\'([0-9A-Fa-f]{2})|\\([^A-Za-z])|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\",
    re.DOTALL,
)
_CHARACTERS = {
    "~": "\xa0", "_": "\u2011", "\t": "\t", "emdash": "—", "endash": "–", "emspace": " ", "enspace": " ", "qmspace": " ",
    "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "tab": "\t", "line": "\n", "lbr": "\n",
    "softline": "\n", "nestcell": " ", "nestrow": " ", "zwj": "\u200d", "zwnj": "\u200c", "ltrmark": "\u200e",
    "rtlmark": "\u200f",
}  # fmt: skip
_TIME = {"yr": "{:04}", "mo": "-{:02}", "dy": "-{:02}", "hr": "T{:02}", "min": ":{:02}"}
_RAISED = {"super": "^", "up": "^", "sub": "~", "dn": "~", "nosupersub": ""}
_HIDDEN = frozenset({"v", "deleted", "htmlrtf"})
_FACTS = ("title", "author", "creatim", "revtim", "keywords", "subject")
_TEXTS_OF_SHAPES = frozenset({"gtextUNICODE", "wzDescription"})
"""The properties (`\\sn`) of shapes and pictures with text as value (`\\sv`): WordArt and descriptions."""
_ROLES = {
    word: role
    for role, words in {
        "omitted": "aftncn aftnsep aftnsepc atnauthor atndate atnid colortbl filetbl fonttbl ftncn ftnsep ftnsepc info"
        " mmathPict nonesttables pict revtbl rxe shprslt stylesheet tc tcn txe upr xe",
        "fact": " ".join((*_FACTS, "sn", "sv")),
        "aside": "annotation dptxbxtext footer footerf footerl footerr footnote header headerf headerl headerr listtext pntext"
        " shptxt",
        "code": "fldinst",
        "text": "do htmltag moMath moMathPara nesttableprops shpinst",
    }.items()
    for word in words.split()
}
"""The role of each destination. Unknown optional destinations (`\\*`) are omitted."""


class _State(NamedTuple):
    """The inherited state of a group: flow of its text (None: omitted), destination, and character properties."""

    flow: RtfFlow | None
    kind: str = ""
    font: int | None = None
    replaced: int = 1
    """The number of replacement characters after `\\u`, for programs without Unicode (`\\uc`)."""
    hidden: frozenset[str] = frozenset()
    link: str = ""
    mark: str = ""
    """`^` for raised numbers, `~` for lowered numbers."""


def rtf(data: bytes) -> tuple[str, Metadata, list[str]]:
    """Return text, metadata and warnings. Raises ParseError for data that is not RTF."""
    if b"{\\rtf" not in data[:100]:
        raise ParseError("cannot be read as application/rtf; open it in its own program and save it again")
    return _Reader(data).result()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._fonts = Fonts()
        self._body = RtfFlow()
        self._state = _State(self._body)
        self._outer: list[_State] = []
        self._facts: dict[str, str] = {}
        self._notes: list[str] = []
        self._written = bytearray()
        """Undecoded text: the bytes of a character may be several tokens."""
        self._is_start = self._is_optional = self._is_html = False
        self._to_skip = self._objects = self._formulas = 0
        self._sign = ("", 0)
        """The sign that a part of a formula starts with when it has text, and the depth of its group."""
        self._read(data.removeprefix(BOM_UTF8))

    def result(self) -> tuple[str, Metadata, list[str]]:
        unread = (("embedded files", self._objects), ("formulas", self._formulas))
        warnings = [f"{things} not read: {number}" for things, number in unread if number]
        if self._outer:
            warnings.append("the file is truncated; text may be missing")
        while self._outer:
            self._leave()
        if self._is_html:
            text = html(self._body.source().encode("utf-8", "replace"), encoding="utf-8").text
        else:
            text = "\n\n".join((self._body.text(), *self._notes))
        if "\ufffd" in text:
            warnings.append("some characters are not valid in their code page")
        title, author, created, modified, keywords, subject = map(self._facts.get, _FACTS)
        words = tuple(re.split(r"\s*[,;]\s*", keywords or ""))
        authors = (author,) if author else ()
        return text, Metadata(title, authors, created, modified, words, subject), warnings

    def _read(self, data: bytes) -> None:
        at = 0
        while token := _TOKEN.match(data, at):
            at = token.end()
            word, number, code, sign, brace, literal = token.groups()
            if code or literal or (sign and sign in b"\\{}"):
                self._add_bytes(bytes.fromhex(code.decode()) if code else literal or sign)
                continue
            if not (word or sign or brace):
                continue
            self._end_bytes()
            if brace == b"{":
                self._outer.append(self._state)
                self._is_start, self._is_optional, self._to_skip = True, False, 0
            elif brace:
                self._leave()
            elif word == b"bin":
                at += max(0, int(number or 0))
                self._to_skip = max(0, self._to_skip - 1)
            elif self._to_skip:
                self._to_skip -= 1
            elif sign == b"*":
                self._is_optional = self._is_start
            else:
                self._control((word or sign).decode("latin-1"), None if number is None else int(number))
                self._is_start = self._is_optional = False
        self._end_bytes()

    def _add_bytes(self, written: bytes) -> None:
        skipped = min(self._to_skip, len(written))
        self._to_skip -= skipped
        self._is_start = self._is_start and written.isspace()
        if self._state.flow is not None or self._state.kind == "fonttbl":
            self._written += written[skipped:]

    def _end_bytes(self) -> None:
        if self._written:
            if self._state.kind == "fonttbl":
                self._fonts.add_name(bytes(self._written))
            else:
                self._write(self._fonts.decoded(bytes(self._written), self._state.font))
            self._written.clear()

    def _write(self, text: str) -> None:
        if self._state.flow is not None and not self._state.hidden:
            if self._sign[0] and text.strip():
                self._state.flow.write(self._sign[0], self._state.link)
                self._sign = ("", 0)
            self._state.flow.write(text, self._state.link, self._state.mark)

    def _leave(self) -> None:
        """End a group and store the text of its destination."""
        if not self._outer:
            return
        ended, self._state = self._state, self._outer.pop()
        self._is_start, self._to_skip = False, 0
        if len(self._outer) < self._sign[1]:
            self._sign = ("", 0)
        flow, kind, outer = ended.flow, ended.kind, self._state.flow
        if flow is None or flow is outer or kind not in _ROLES:
            return
        if kind == "fldinst":
            instruction = flow.source()
            self._state = self._state._replace(link=field_address(instruction) or self._state.link)
            self._formulas += instruction.strip().upper().startswith("EQ ")
        elif not (text := flow.text()):
            return
        elif kind == "footnote":
            self._notes.append(f"[^{len(self._notes) + 1}]: {text}")
            self._body.write(f"[^{len(self._notes)}]")
        elif kind in ("listtext", "pntext"):
            self._body.write(f"{text} " if any(map(str.isalnum, text)) else "- ")
        elif _ROLES[kind] == "fact":
            self._facts[kind] = text
            if kind == "sv" and self._facts.get("sn") in _TEXTS_OF_SHAPES and not self._state.hidden:
                self._body.add_aside(text)
        else:
            self._body.add_aside(f"Comment: {text}" if kind == "annotation" else text)

    def _control(self, word: str, number: int | None) -> None:
        state = self._state
        role = _ROLES.get(word) or ("omitted" if self._is_optional or word.endswith("Pr") else "")
        if word == "ud" and len(self._outer) > 1:
            self._state = state._replace(flow=self._outer[-2].flow, kind=word)
        elif role == "omitted":
            self._objects += word == "objdata"
            self._state = state._replace(flow=None, kind=word)
        elif role == "fact":
            self._state = _State(RtfFlow(), word, font=NO_FONT)
        elif (role == "aside" and state.flow is self._body) or (role == "code" and state.flow is not None):
            self._state = state._replace(flow=RtfFlow(), kind=word, link="", mark="")
        elif not role:
            self._set(word, number)

    def _set(self, word: str, number: int | None) -> None:
        """Apply a control word other than a destination."""
        state, flow = self._state, self._state.flow
        if word in _HIDDEN:
            self._state = state._replace(hidden=state.hidden - {word} if number == 0 else state.hidden | {word})
        elif word in _RAISED:
            self._state = state._replace(mark="" if number == 0 else _RAISED[word])
        elif word[0] == "m" and word[1:] in drawings.SIGNS:
            self._sign = (drawings.SIGNS[word[1:]], len(self._outer))
        elif word == "u" and number is not None:
            self._write(self._fonts.character(number, state.font))
            self._to_skip = state.replaced
        elif word == "uc":
            self._state = state._replace(replaced=max(0, number or 0))
        elif word == "fromhtml":
            self._is_html = True
        elif word == "plain":
            self._state = state._replace(font=self._fonts.default, hidden=state.hidden & {"htmlrtf"}, mark="")
        elif state.kind == "fonttbl":
            self._fonts.define(word, number)
        elif self._fonts.obeys(word, number):
            return
        elif self._fonts.selects(word):
            self._state = state._replace(font=number)
        elif word in _TIME:
            self._write(_TIME[word].format(number or 0))
        elif word in _CHARACTERS:
            self._write(_CHARACTERS[word])
        elif self._is_html:
            self._write("\n" if word in BREAKS else "")
        elif flow is not None and not state.hidden:
            flow.obey(word, number)
