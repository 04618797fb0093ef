"""Distinguish passwords that people chose from placeholders, references, types and labels beside the word `password`."""

from __future__ import annotations

import re
from itertools import pairwise

ACCENTED_HINTS = (
    *("aseñ", "hasło", "lösenord", "jelszó", "şifre", "slaptažod", "mật khẩu", "парол", "лозинк", "κωδικ"),
    *(
        "συνθηματικ",
        "סיסמ",
        "كلمة",
        "رمز عبور",
        "पासवर्ड",
        "รหัสผ่าน",
        "パスワード",
        "密码",
        "密碼",
        "口令",
        "비밀번호",
        "암호",
    ),
)
ACCENTED_NAMES = (
    r"(?:contraseña|lösenord|jelszó|slaptažodis|mật khẩu|パスワード|密[码碼]|口令|비밀번호|암호|รหัสผ่าน|पासवर्ड"
    r"|(?<![^\W\d_])(?:hasło|şifre|пароль|парола|лозинка|κωδικός|συνθηματικό|סיסמ[האa]|كلمة (?:المرور|السر)|رمز عبور))"
)
"""The word for password in other languages, in lower case, and a part of each."""
FOREIGN_HINTS = (
    *("wachtwoord", "paswoord", "kennwort", "contrasen", "senha", "parola", "parool", "salasana", "adgangskode"),
    *("kodeord", "eslo", "lozinka", "sifre", "haslo"),
)
FOREIGN_NAMES = (
    r"(?:wachtwoord|paswoord|kennwort|contraseny?a|adgangskode|kodeord|salasana"
    r"|(?<![^\W\d_])(?:senha|parola|parool|[hg]eslo|lozinka|sifre|haslo))"
)
"""The same without accents, or in languages that need none."""

_PLACEHOLDER = re.compile(
    r"\A[x.?_#-]+\Z|\*\*\*|\.\.\.|…|[«»]|xxxx|\A\$[0-9][a-z]?\$"
    r"|(?:\A|[^a-z])(?:example|placeholder|change.?(?:me|it|this)|your|my|dummy|tests?|fake|sample|redacted|hidden|todo"
    r"|none|null|true|false|optional|required|default)(?:[^a-z]|\Z)"
    r"|\A[0-9]{1,5}\Z|\A\[.*\]\Z|\A(?:u?int|float|[uifx]|utf-?|sha|md|base|oauth|aes|ed|scram-sha-)[0-9]{1,5}\Z",
    re.IGNORECASE,
)
_PLACE_OF_A_SECRET = r"://|(?:/[\w.-]+){2}|\A(?:env|file|keyring|block|vault|op|arn|ref)[:+]"
"""Addresses, paths and references, anywhere in a value or at its start."""
_REFERENCE = re.compile(
    r"\A[$~./\\!@&%:=*]|\A--|\$[\w{(]|%[(\w]|\{\w*\}|\{\{|\A(?:<.*>|\{.*\}|\(.*\)|[A-Za-z]:\\.*|\w+(?:\.[A-Za-z_]\w*)+|.*:[0-9]{1,5})\Z"
    rf"|\w[(\[]|{_PLACE_OF_A_SECRET}",
    re.IGNORECASE,
)
_OPENING_REFERENCE = re.compile(
    r"\A[$@&!%*=:](?:[A-Za-z_.-]+[0-9]*%?|[{(].*)\Z|\A[$@&!%*=:].*(?:pass|pwd|secret|token)"
    r"|\A(?:[~.]{0,2}[/\\]\w|--|<.*>\Z|\{.*\}\Z|\(.*\)\Z|\[.*\]\Z)"
    r"|\$\{|\{\{|\{%|%\(|/[a-z]{3,}|\A[A-Za-z]:\\|"
    rf"{_PLACE_OF_A_SECRET}",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\w\(.*\)|\w\[.*\]|[(\[{]\Z|->|=>|::|&&|\|\||[!=]=|\$[a-z_]{4,}\Z|[,;&|?][\w-]+[:=]|[\"'`]\s*[+,}\])]|\\[nrt\"']|</|/>"
    r"|\A(?:[A-Za-z_]+[0-9]?\.)+[A-Za-z_]+[0-9]?\Z"
    r"|(?:\A|[^A-Za-z])(?:u?int|float|complex|utf-?|sha|md|base|p)[0-9]{1,5}(?![A-Za-z0-9])"
)
"""Expressions: calls, operators, members of objects, types."""
_WORDS_AND_NUMBER = re.compile(r"[A-Za-z]{4,}[0-9]*[^\w\s()\[\]{}\"'`\\/:=<>|,;~][A-Za-z]*[0-9]{2,8}[!?]?")
_KINDS = tuple(re.compile(letters) for letters in ("[a-z]", "[A-Z]", "[0-9]", r"[^A-Za-z0-9]"))
_LEAST_MIXED, _LEAST_GENERATED = 8, 14
_WORD = re.compile(r"[a-z]{4}|[A-Z]{4}")
_TO_END_OF_LINE = re.compile(r"[!-~]{8,64}?(?=[*_]{0,2}[,;]?[ \t]*(?:[\r\n]|\Z))")
_NEXT_LINE = re.compile(r"\\[nrt](?:[\w-]+[:=]|.*(?:[a-z]{4}|[A-Z]{4}|[\"'`][,;)\]}]*\Z))")
"""The text after an escaped end of a line: a name, a word, or the end of the quotes around the lines."""
_WORD_OF_A_NAME = re.compile(
    rf"pass|pwd|secret|token|user|login|field|crypt|{ACCENTED_NAMES}|{FOREIGN_NAMES}", re.IGNORECASE
)
_STRONG = re.compile(r"(?=.*[A-Z])(?=.*[0-9])(?=.*[^\w-])")
_LABEL = re.compile(
    r"[^\W\d_]{1,5}|[A-Z][^\W\d_]+|(?i:foobar|letmein|monkey|welcome|string|number|boolean|object|varchar|header)"
)
_NAME = re.compile(r"[^\W\d]+(?:[-.:/][^\W\d]+)*[-.:/]?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=\Z")
_END_OF_LINE = re.compile(r"[*_\"']{0,2}[ \t]*(?:[#;\r\n]|//|\Z)")
_NUMBERED = re.compile(r"[A-Za-z]{4,}[0-9]{2,}[A-Za-z]*|[0-9]{6,12}")
_END_OF_PART = re.compile(r"[*_\"']{0,2}[ \t]*[,|()<]")
_DIRECTIVE = re.compile(
    r"(?:\A|\n)[ \t]*(?:bindpw|rootpw|requirepass|masterauth|wpa-psk|wpa-passphrase) [\"']?\Z", re.IGNORECASE
)
_START_OF_ROW = re.compile(r"[ \t]*(?:\|[^\n]*|[\w*]{0,20})")
_ACTION = re.compile(
    r"(?:confirm|repeat|retype|forg[eo]t(?:ten)?|reset|change|show|hide|enter|invalid|wrong|lost)[_.-]?\Z",
    re.IGNORECASE,
)
_GROUPS = re.compile(r"[A-Za-z0-9]{4}(?:[ -][A-Za-z0-9]{4}){3,5}")
_COMMON_WORD = re.compile(
    r"\b(?:been|code|five|four|from|have|into|less|more|must|need|once|only|over|pass|same|sent|such|test|than|that|them"
    r"|then|they|this|used|uses|user|very|what|when|will|with|word|work|your)\b",
    re.IGNORECASE,
)
_CELLS = {
    separator: re.compile(
        rf'("(?:[^"]|"")*"[ \t\r]*(?=[{separator}]|\Z)|(?:\\.|[^\\{separator}])*)(?:[{separator}]|\Z)'
    )
    for separator in ("|", "\t", ",", ";")
}
"""The cells of a line, by separator."""
_MARKUP, _BLANK, _FEW_WORDS = " \t\r\"'`*_", re.compile(r"\s"), re.compile(r"[\w .-]{0,24}")
_FEWEST, _MOST, _LONGEST_ROW = 4, 200, 2000


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a secret: a placeholder, or a reference to the place of the secret."""
    return bool(_PLACEHOLDER.search(value) or _REFERENCE.search(value))


def is_password(value: str) -> bool:
    """Return whether a value is a password, not a placeholder, a reference, a name or a label."""
    if is_chosen(value):
        return True
    is_name = _WORD_OF_A_NAME.search(value) and not _STRONG.match(value)
    return not (is_name or is_placeholder(value) or _LABEL.fullmatch(value) or is_foreign(value))


def is_mixed(value: str) -> bool:
    """Return whether at least three of small letters, capitals, digits and symbols alternate in a value."""
    kinds = [next(number for number, kind in enumerate(_KINDS) if kind.match(letter)) for letter in value]
    turns = sum(1 for before, after in pairwise(kinds) if before != after)
    return len(set(kinds)) >= 3 and 5 * turns >= 2 * (len(value) - 1)


def is_chosen(value: str) -> bool:
    """Return whether a value with any symbols is a password, because code and references do not look like it."""
    return (
        len(value) >= _LEAST_MIXED
        and value.isascii()
        and (is_mixed(value) or _WORDS_AND_NUMBER.fullmatch(value) is not None)
        and not _PLACEHOLDER.search(value)
        and (_is_generated(value) or not (_OPENING_REFERENCE.search(value) or _CODE.search(value)))
        and not (_WORD_OF_A_NAME.search(value) and not _STRONG.match(value))
    )


def end_of_value(text: str, start: int, stop: int) -> int:
    """Return the end of a value up to the end of the line, if the escape before which it stops is part of it."""
    line = _TO_END_OF_LINE.match(text, start) if text.startswith("\\", stop) else None
    return stop if line is None or _NEXT_LINE.match(text, stop, line.end()) else line.end()


def _is_generated(value: str) -> bool:
    """Return whether a value is long and has all kinds of characters but no word, which code and references have."""
    return len(value) >= _LEAST_GENERATED and all(kind.search(value) for kind in _KINDS) and not _WORD.search(value)


def is_foreign(value: str) -> bool:
    """Return whether a value is text in a script without small letters, such as Japanese, or of letters outside ASCII."""
    return not value.isascii() and (
        any(letter.isalpha() and letter.lower() == letter.upper() for letter in value)
        or not any(letter.isascii() and letter.isalnum() for letter in value)
        or (value.isalpha() and value[0].isupper())
    )


def is_symbolic_password(value: str) -> bool:
    """Return whether a value is a password that is not made of letters only."""
    return is_password(value) and not _NAME.fullmatch(value)


def is_directive(text: str, start: int, stop: int) -> bool:
    """Return whether a value is the argument of a setting that is a password, at the end of a line without a sign."""
    return bool(_DIRECTIVE.search(text, max(0, start - 60), start) and _END_OF_LINE.match(text, stop))


def is_in_row(match: re.Match[str], text: str) -> bool:
    """Return whether a match is in a table: its line starts with a bar, or with the name."""
    return _START_OF_ROW.fullmatch(text, _line_start(text, match.start()), match.start()) is not None


def is_assigned_password(match: re.Match[str], text: str) -> bool:
    """Return whether the value that a match assigns to a name is a password. `suffix` follows the word in the name."""
    start, stop = match.span(match.lastgroup or 0)
    value = text[start:stop]
    if match["suffix"].strip("0123456789_"):
        return False
    if _GROUPS.fullmatch(value):
        return not _COMMON_WORD.search(value)
    if not is_password(value):
        return False
    if match.lastgroup in {"double", "single"}:
        return not (_ACTION.search(text, max(0, match.start() - 20), match.start()) and _NAME.fullmatch(value))
    if match.lastgroup == "argument" and text[text.rfind(",", 0, start) - 1] not in "\"'":  # an argument in code
        return False
    if match.lastgroup == "bare":
        is_numbered = _NUMBERED.fullmatch(value) is not None
        if text[start - 1] == "=":
            is_code = not is_numbered or (value.isalnum() and "(" in text[_line_start(text, start) : start])
            if text.startswith((",", ")"), stop) and is_code and not value.isdigit():  # an argument
                return False
        elif not (_END_OF_LINE.match(text, stop) or (is_numbered and _END_OF_PART.match(text, stop))):  # a sentence
            return False
    return bool(_VARIABLE.search(text, max(0, start - 60), start)) or not _NAME.fullmatch(value)


def passwords_below(names: re.Pattern[str], place: int, lower: str, text: str) -> tuple[int, list[tuple[int, int]]]:
    """Return the end of a table, Markdown or separated values, and start and end of each password in it.

    The line at the place is its header, and has a column with one of the names; otherwise the end is 0.
    """
    start = _line_start(lower, place)
    place = _line_end(text, place)
    header, following = lower[start:place], text[place + 1 : _line_end(text, place + 1)]
    separator = next((each for each in _CELLS if each in header and each in following), "")
    if not separator or len(header) >= _LONGEST_ROW or (separator in ",;" and f"{separator} " in header):
        return 0, []
    cells = [header[slice(*cell)] for cell in _cells(separator, header, 0)]
    columns = [number for number, cell in enumerate(cells) if _is_named(cell, names)]
    if not columns or not (columns[0] > 0 or "--" in following):
        return 0, []
    passwords: list[tuple[int, int]] = []
    first = [following[slice(*cell)] for cell in _cells(separator, following, 0)]
    if any(cell and cell == value for cell, value in zip(cells, first, strict=False)):  # a list of words
        return 0, []
    while place < len(text):
        stop = _row_end(text, place + 1)
        row = _cells(separator, text[place + 1 : stop], place + 1)
        if len(row) != len(cells):
            break
        place = stop
        passwords += [row[number] for number in columns if _is_in_cell(text[slice(*row[number])])]
    return place, passwords


def _line_start(text: str, place: int) -> int:
    """Return the start of the line at a place; a long line is cut, so that the search of many places stays linear."""
    return text.rfind("\n", max(0, place - _LONGEST_ROW), place) + 1 or max(0, place - _LONGEST_ROW)


def _line_end(text: str, place: int) -> int:
    stop = text.find("\n", place, place + _LONGEST_ROW)
    return stop if stop >= 0 else min(place + _LONGEST_ROW, len(text))


def _row_end(text: str, place: int) -> int:
    """Return the end of a row; a cell in quotes may have several lines."""
    stop = _line_end(text, place)
    quotes, end = text.count('"', place, stop), stop
    while quotes % 2 and end < len(text) and end - place < _LONGEST_ROW:
        start, end = end, _line_end(text, end + 1)
        quotes += text.count('"', start, end)
    return stop if quotes % 2 else end


def _cells(separator: str, line: str, place: int) -> list[tuple[int, int]]:
    """Return start and end of the content of each cell of a line that starts at a place."""
    spans = []
    for cell in _CELLS[separator].finditer(line):
        content = cell[1].strip(_MARKUP)
        start = cell.start(1) + cell[1].find(content)
        spans.append((place + start, place + start + len(content)))
        if cell.end() == cell.end(1):  # not before a separator, after which the last cell may be empty
            break
    return spans


def _is_named(cell: str, names: re.Pattern[str]) -> bool:
    """Return whether a cell of a header is a name of passwords, with at most a few words before it."""
    name = names.search(cell)
    return name is not None and name.end() == len(cell) and _FEW_WORDS.fullmatch(cell, 0, name.start()) is not None


def _is_in_cell(value: str) -> bool:
    return _FEWEST <= len(value) <= _MOST and not _BLANK.search(value) and is_symbolic_password(value)
