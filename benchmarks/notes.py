"""A vault of generated notes, deterministic by number and seed, with realistic sizes and links between the notes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_MEDIAN_CHARACTERS = 1_900
_SPREAD = 0.85
_PER_FOLDER = 100

_TEXTS = {
    "en": "the river valley after rain a low bridge where boats wait and nobody counts hours keeper lamp map garden north "
    "meeting plan budget letter answer question harvest winter engine signal paper window morning train report",
    "de": "der Fluss nach dem Regen eine Brücke wo Boote warten und niemand zählt die Stunden Wärter Lampe Karte Garten "
    "Sitzung Plan Brief Antwort Frage Ernte Winter Maschine Zeichen Papier Fenster Morgen Zug Bericht größer über",
    "fr": "la rivière après la pluie un pont où les bateaux attendent et personne ne compte les heures gardien lampe carte "
    "jardin réunion projet lettre réponse récolte hiver moteur signal papier fenêtre matin train été déjà",
    "es": "el río después de la lluvia un puente donde los barcos esperan y nadie cuenta las horas guardián lámpara mapa "
    "jardín reunión plan carta respuesta cosecha invierno motor señal papel ventana mañana tren informe año",
    "ru": "река после дождя низкий мост где лодки ждут и никто не считает часы смотритель лампа карта сад собрание план "
    "письмо ответ вопрос урожай зима машина сигнал бумага окно утро поезд отчёт",
    "ja": "雨の後 川 低い橋 船 待つ 時間 数えない 灯台 地図 庭 会議 計画 手紙 返事 質問 収穫 冬 機械 信号 紙 窓 朝 列車 報告",
}
WORDS: Mapping[str, Sequence[str]] = {language: text.split() for language, text in _TEXTS.items()}
"""The words of the notes, by language."""
_LANGUAGES = ("en",) * 6 + ("de", "de", "fr", "es", "ru", "ja")
_TAGS = ("project/river", "project/bridge", "reading", "meeting", "idea", "person", "recipe", "todo", "archive/old")


def generate(folder: Path, count: int, seed: int = 1, words: Mapping[str, Sequence[str]] = WORDS) -> int:
    """Write `count` notes into folders of about a hundred below `folder`. Returns their total size in bytes."""
    (folder / ".obsidian").mkdir(parents=True)
    (folder / ".obsidian" / "app.json").write_text("{}\n")
    total = 0
    for number in range(count):
        path = folder / _path(number)
        path.parent.mkdir(exist_ok=True)
        total += path.write_bytes(_note(random.Random(f"{seed}/{number}"), number, count, words).encode())
    return total


def edit(folder: Path, count: int, every: int) -> int:
    """Add a line to every `every`-th of the `count` notes. Returns the number of changed notes."""
    numbers = range(0, count, every)
    for number in numbers:
        with (folder / _path(number)).open("a") as note:
            note.write("\nOne more line, written later.\n")
    return len(numbers)


def edit_one(folder: Path, number: int, line: str) -> tuple[Path, str]:
    """Return the path of a note, and its current text with one more line."""
    note = folder / _path(number)
    return note, f"{note.read_text(encoding='utf-8')}\n{line}\n"


def _title(number: int) -> str:
    return f"Note {number:06d}"


def _path(number: int) -> Path:
    return Path(f"Folder {number // _PER_FOLDER:04d}") / f"{_title(number)}.md"


def _note(chance: random.Random, number: int, count: int, vocabulary: Mapping[str, Sequence[str]]) -> str:
    words = vocabulary[chance.choice(_LANGUAGES)]
    wanted = min(max(chance.lognormvariate(math.log(_MEDIAN_CHARACTERS), _SPREAD), 150), 60_000)
    parts = [_frontmatter(chance, number)] if chance.random() < 0.8 else []
    parts.append(f"# {_sentence(chance, words, 4)}\n")
    size = 0
    while size < wanted:
        part = _choose(chance)(chance, words, count)
        parts.append(part)
        size += len(part.encode())
    return "\n".join(parts)


def _choose(chance: random.Random) -> Callable[[random.Random, Sequence[str], int], str]:
    parts = (_paragraph, _heading, _list, _tasks, _table, _code, _callout)
    return chance.choices(parts, weights=(60, 12, 10, 6, 5, 4, 3))[0]


def _frontmatter(chance: random.Random, number: int) -> str:
    tags = ", ".join(chance.sample(_TAGS, chance.randint(1, 3)))
    day = f"20{chance.randint(15, 26)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"
    alias = f"aliases:\n  - Number {number}\n" if chance.random() < 0.3 else ""
    return f"---\ncreated: {day}\ntags: [{tags}]\n{alias}rating: {chance.randint(1, 5)}\n---"


def _sentence(chance: random.Random, words: Sequence[str], length: int) -> str:
    return " ".join(chance.choices(words, k=length)).capitalize()


def _paragraph(chance: random.Random, words: Sequence[str], count: int) -> str:
    sentences = [_sentence(chance, words, chance.randint(6, 18)) for _ in range(chance.randint(2, 6))]
    if chance.random() < 0.7:
        target = _title(chance.randrange(count))
        link = chance.choice((f"[[{target}]]", f"[[{target}|that note]]", f"[[{target}#Plan]]"))
        sentences.append(f"See {link}")
    if chance.random() < 0.15:
        sentences.append(f"More at https://example.org/{chance.getrandbits(24):x}")
    if chance.random() < 0.1:
        sentences.append(f"#{chance.choice(_TAGS)}")
    return ". ".join(sentences) + ".\n"


def _heading(chance: random.Random, words: Sequence[str], _count: int) -> str:
    return f"{'#' * chance.randint(2, 4)} {_sentence(chance, words, 3)}\n"


def _list(chance: random.Random, words: Sequence[str], _count: int) -> str:
    return "".join(f"- {_sentence(chance, words, 5)}\n" for _ in range(chance.randint(3, 7)))


def _tasks(chance: random.Random, words: Sequence[str], _count: int) -> str:
    return "".join(f"- [{chance.choice(' x')}] {_sentence(chance, words, 5)}\n" for _ in range(chance.randint(2, 5)))


def _table(chance: random.Random, words: Sequence[str], _count: int) -> str:
    rows = "".join(
        f"| {_sentence(chance, words, 2)} | {chance.randint(1, 999)} |\n" for _ in range(chance.randint(2, 8))
    )
    return f"| What | How many |\n|---|---:|\n{rows}"


def _code(chance: random.Random, words: Sequence[str], _count: int) -> str:
    lines = "".join(
        f"    total += {chance.randint(1, 99)}  # {chance.choice(words)}\n" for _ in range(chance.randint(2, 8))
    )
    return f"```python\ndef count(total):\n{lines}    return total\n```\n"


def _callout(chance: random.Random, words: Sequence[str], _count: int) -> str:
    return f"> [!note] {_sentence(chance, words, 3)}\n> {_sentence(chance, words, 12)}\n"
