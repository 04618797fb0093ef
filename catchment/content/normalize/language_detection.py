"""The language of a text: the declared language, or else a guess by its script and its most common short words."""

from __future__ import annotations

import re
from locale import locale_alias

_SAMPLE = 600
_WINDOWS = (900, 12_000)
"""Characters that are searched for a sample without markup."""
_MARKUP = re.compile(
    r"\n {0,3}(`{3,}+|~{3,}+)(?s:.*?)(?:\n {0,3}\1[`~]*[ \t]*$|\Z)|\]\([^()\s]*\)?|://\S*|<[A-Za-z!/][^<>]*>"
    r"|\\[A-Za-z]+\*?(?:\[[^\[\]\n]*\]|\{[^{}\n]*\})*",
    re.MULTILINE,
)
"""Fenced code, targets of links, tags, and commands of TeX."""
_LEAST_WORDS = 12
_LEAST_SHARE = 0.08
_LEAST_LEAD = 1.25

_TAG = re.compile(r"\s*([a-z]{2}(?![^\W_])|[a-z]{4,})", re.IGNORECASE)
_NAMES = {
    "de": "austrian naustrian ngerman nswissgerman swissgerman",
    "en": "australian british canadian ukenglish usenglish",
    "fr": "acadian canadien francais frenchb",
    "pt": "brazil brazilian portuges",
    **{"no": "norsk", "hu": "magyar", "uk": "ukrainian", "fa": "persian", "zh": "chinese", "hi": "hindi"},
    **{"ka": "georgian", "hy": "armenian"},
}
"""Names in TeX that `locale_alias` lacks."""
_CODES = {name: code for code, names in _NAMES.items() for name in names.split()}
_LOCALE = re.compile(r"([a-z]{2})_")
_DECLARED = {
    "text/x-rst": re.compile(r"^:lang(?:uage)?:[ \t]*(.+)", re.MULTILINE),
    "text/x-asciidoc": re.compile(r"^:lang:[ \t]*(.+)", re.MULTILINE),
    "text/x-org": re.compile(r"^#\+language:[ \t]*(.+)", re.MULTILINE | re.IGNORECASE),
    "text/x-tex": re.compile(
        r"^[^%\n]*\\(?:usepackage\[(?:[^\]]{0,500}\bmain\s*=\s*(\w+)[^\]]{0,500}|([^\]]{0,500}))\]\{babel\}"
        r"|documentclass\[([^\]]{0,500})\]"
        r"|set(?:default|main)language(?:\[[^\]]*\])?\{(\w+))",
        re.MULTILINE,
    ),
}
"""Where a document in a markup declares its language. The last known name counts: of TeX's options, it is the main language."""
_NOT_PROSE = re.compile(
    r"\A(?s:.*?)\\begin\{document\}|^[ \t]*(?:#\+|\\# |//|:[\w-]+:|\.\. |\[).*|(?<!\\)%.*", re.MULTILINE
)
"""The preamble of TeX, and lines of fields, directives and comments."""
_LETTERS = re.compile(r"[a-z]+")
_NOT_LATIN = re.compile(r"[\u0250-\U0010ffff]")
_BEYOND = re.compile(r"[^\W\d_\x00-\u024f]+")
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("ka", re.compile(r"[\u10a0-\u10ff]")),
    ("hy", re.compile(r"[\u0530-\u058f]")),
)
_COMMON = {
    "en": "the of and to in is that for it was on with as are this be at from have not or by which you they an we",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus wir",
    "fr": "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont avec nous",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha",
    "it": "di e che la il un a per è in una sono non con del si da le dei nel alla come anche più ma ha gli della",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele das à seu sua",
    "nl": "de en van ik te dat die in een hij het niet zijn is was op aan met als voor had er maar om hem dan ook",
    "sv": "och i att det som en på är av för med till den har de inte om ett han men var jag sig från vi så",
    "da": "og i at det er en til på som af for med de den der ikke et har om var fra jeg vi så han men",
    "no": "og i det er en til på som av for med de den ikke et har om var fra jeg vi så han men eller være",
    "fi": "ja on ei että se oli hän mutta ovat kun niin myös joka tai sen sekä kuin ole voi jos vain mukaan nyt",
    "pl": "i w na z się nie do to że jest o jak ale po co tak za od czy ich przez są dla tym być może",
    "cs": "a v se na je že s z do o to i k ve pro za by ale si po jako jsou od které byl nebo však",
    "hu": "a az és hogy nem is egy van ez volt meg de csak már mint ha még el azt lehet minden ki kell",
    "ro": "de și în a la cu pe nu o un să este din că mai ce care sunt pentru au se prin dar sau ca fi",
    "tr": "ve bir bu da de için ile çok ne daha o gibi olarak olan ama var kadar sonra her en ki mi ben değil",
    "ru": "и в не на я что он с как это по но к из у за от так же для вы бы мы его было только или",
    "uk": "і в не на що з як це по але до із у за від так же для ви б ми його було тільки або та є",
    "bg": "и в не на да се от за е по но с че като са това ще до си той или при има след ако",
    "ar": "في من على أن إلى هذا عن مع التي الذي كان هذه لا ما هو كل بعد قد بين أو ذلك وقد لم",
    "fa": "و در به از که این را با است برای آن یک خود تا بر هم نیز شده می ها هر یا بود کرد",
}


def _table() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for code, words in _COMMON.items():
        for word in words.split():
            table[word] = (*table.get(word, ()), code)
    return table


_LANGUAGES_OF = _table()


def declared_language(name: str | None) -> str | None:
    """Return the ISO 639-1 code of a declared language: of a tag such as `de-CH`, or of an English name such as `german`."""
    tag = _TAG.match(name or "")
    if tag is None or len(tag[1]) == len("de"):
        return tag and tag[1].lower()
    known = _LOCALE.match(locale_alias.get(tag[1].lower(), ""))
    return known[1] if known else _CODES.get(tag[1].lower())


def language_of(text: str, kind: str) -> str | None:
    """Return the language that a text without its code blocks declares in its markup, else the one of its prose."""
    named = " ".join(match[match.lastindex or 0] for match in _DECLARED[kind].finditer(text))
    codes = [code for name in re.findall(r"\w[\w-]*", named) if (code := declared_language(name))]
    return codes[-1] if codes else language(_NOT_PROSE.sub("", text))


def language(text: str) -> str | None:
    """Return the ISO 639-1 code by the first 600 characters of prose, or None for a short or mixed text."""
    for window in _WINDOWS:
        sample = _MARKUP.sub(" ", f"\n{text[:window]}")[:_SAMPLE]
        if len(sample) == _SAMPLE or window >= len(text):
            break
    sample = sample.lower()
    if not sample.isascii() and (code := _by_script(sample)):
        return code
    words = sample.split()
    if len(words) < _LEAST_WORDS:
        return None
    scores: dict[str, int] = {}
    for codes in filter(None, map(_LANGUAGES_OF.get, words)):
        for code in codes:
            scores[code] = scores.get(code, 0) + 1
    ranked = sorted(((score, code) for code, score in scores.items()), reverse=True)[:2]
    if not ranked or ranked[0][0] < _LEAST_SHARE * len(words):
        return None
    return ranked[0][1] if len(ranked) == 1 or ranked[0][0] >= _LEAST_LEAD * ranked[1][0] else None


def _by_script(sample: str) -> str | None:
    """Return the language of the script with most letters beyond ASCII, or None."""
    if not _NOT_LATIN.search(sample):
        return None
    beyond, ascii_letters = (sum(map(len, letters.findall(sample))) for letters in (_BEYOND, _LETTERS))
    if beyond < _LEAST_WORDS or beyond * 2 < ascii_letters:
        return None
    for code, letters in _SCRIPTS:
        if len(letters.findall(sample)) * 5 > beyond:
            return code
    return None
