"""Stop words: the articles, pronouns, prepositions, conjunctions, auxiliary verbs and question words of the model's languages.

They belong to the form of a question, not to its subject. Each is in a closed class of words, so that no list contains a name
or a thing. The lists are in `stop_words.txt`, not folded. Words of scripts without spaces between words are in `PARTICLES`,
which separate the words of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

from catchment.ledger import plain_words

PARTICLES = re.compile(
    "について|ください|でしょうか|ですか|ますか|ました|ません|どうやって|どうして|どのように|いつ|どこ|なぜ|なに|どの|どれ|です|ます|した|して|する|から|まで|より|との|には|では|への"
    "|[はがをにでとのもへやか]|什么时候|为什么|怎么样|怎么|什么|哪里|哪些|哪个|多少|如何|是否|可以|应该|我们|你们|他们|我的|[的了是在吗呢吧我你他她们和与或从到把被对]"
    "|อย่างไร|ทำไม|เมื่อไหร่|เมื่อไร|ที่ไหน|อะไร|เท่าไหร่|ของ|และ|หรือ|ที่|ใน|จาก|กับ|เป็น|คือ|ไหม"
)
"""Grammar between the words of a Japanese, Chinese or Thai sentence."""


@cache
def _stop_words() -> Mapping[str, Collection[str]]:
    """Return the stop words by language, as an ISO 639-1 code. A contraction is several words."""
    lists = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n\n")
    return {code: frozenset(plain_words(words).split()) for code, _, words in (line.partition(":") for line in lists)}


def spoken(words: Sequence[str], languages: Collection[str]) -> dict[str, set[str]]:
    """Return the languages of which a text has most stop words, with these. `words`: folded. `languages`: those in question."""
    by_language = {code: {word for word in words if word in _stop_words().get(code, ())} for code in languages}
    most = max(map(len, by_language.values()), default=0)
    return {code: grammar for code, grammar in by_language.items() if most and len(grammar) == most}
