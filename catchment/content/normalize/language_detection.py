"""Detect the language of a text by its script and its most common short words. Doubtful texts get None."""

from __future__ import annotations

import re
from collections import Counter

_SAMPLE = 600
_LEAST_WORDS = 12
_LEAST_SHARE = 0.08
_LEAST_LEAD = 1.25

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


def language(text: str) -> str | None:
    """Return the ISO 639-1 code by the first 600 characters, or None for a short or mixed text."""
    sample = text[:_SAMPLE].lower()
    if not sample.isascii() and (code := _by_script(sample)):
        return code
    words = sample.split()
    if len(words) < _LEAST_WORDS:
        return None
    counts = Counter(words)
    scores: dict[str, int] = {}
    for word in counts.keys() & _LANGUAGES_OF.keys():
        for code in _LANGUAGES_OF[word]:
            scores[code] = scores.get(code, 0) + counts[word]
    ranked = sorted(((score, code) for code, score in scores.items()), reverse=True)[:2]
    if not ranked or ranked[0][0] < _LEAST_SHARE * len(words):
        return None
    return ranked[0][1] if len(ranked) == 1 or ranked[0][0] >= _LEAST_LEAD * ranked[1][0] else None


def _by_script(sample: str) -> str | None:
    """Return the language whose script has most letters beyond ASCII, or None."""
    beyond = sum(1 for letter in sample if letter > "\u024f" and letter.isalpha())
    ascii_letters = sum(1 for letter in sample if letter.isascii() and letter.isalpha())
    if beyond < _LEAST_WORDS or beyond * 2 < ascii_letters:
        return None
    for code, letters in _SCRIPTS:
        if len(letters.findall(sample)) * 5 > beyond:
            return code
    return None
