"""Draw docs/images/*.svg from pictures.yaml: boxes in columns and rows, and arrows between them.

python docs/images/draw.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

import yaml

_HERE = Path(__file__).parent
_MARGIN, _WIDTH, _GAP = 10, 262, 74
_HEIGHT, _ROW = 88, 116
_LETTERS = 36
"""Of the text in a line."""
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .name { font-weight: 600; font-size: 15px }
  .code { font: 11px ui-monospace, monospace; fill: #57606a }
  .word { font-size: 11px; fill: #57606a }
  rect { fill: #f6f8fa; stroke: #8c959f }
  path { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#tip) }
  marker path { fill: #57606a; stroke: none; marker-end: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .code, .word { fill: #9198a1 } rect { fill: #151b23; stroke: #656c76 }
    path { stroke: #9198a1 } marker path { fill: #9198a1 }
  }
"""


def pictures() -> dict[str, str]:
    """Return the text of each picture, by its file name."""
    data = yaml.safe_load((_HERE / "pictures.yaml").read_text(encoding="utf-8"))
    return {f"{name}.svg": _drawn(**picture) for name, picture in data.items()}


def _drawn(boxes: dict[str, list[Any]], arrows: list[list[str]]) -> str:
    places = {
        name: (_MARGIN + column * (_WIDTH + _GAP), _MARGIN + row * _ROW) for name, (column, row, *_) in boxes.items()
    }
    width = _MARGIN + _WIDTH + max(x for x, _ in places.values())
    height = _MARGIN + _HEIGHT + max(y for _, y in places.values())
    parts = [_arrow(places[start], places[stop], word) for start, stop, word in arrows]
    for name, (_, _, code, text) in boxes.items():
        x, y = places[name]
        parts.append(f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="7"/>')
        parts.append(_text("name", x + 10, y + 20, name))
        parts.append(_text("code", x + 10, y + 36, code))
        parts += [_text("", x + 10, y + 55 + 17 * number, line) for number, line in enumerate(wrap(text, _LETTERS))]
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    defs = f'<defs>{tip}<path d="M0 0 8 4 0 8z"/></marker></defs>'
    return "\n".join((head, f"<style>{_STYLE}</style>", defs, *parts, "</svg>", ""))


def _arrow(start: tuple[int, int], stop: tuple[int, int], word: str) -> str:
    (x1, y1), (x2, y2) = start, stop
    if x1 == x2:
        down = y2 > y1
        line = f"M{x1 + _WIDTH / 2:.0f} {y1 + _HEIGHT * down:.0f} V{y2 + _HEIGHT * (not down):.0f}"
        place = x1 + _WIDTH / 2 + 6, (y1 + y2 + _HEIGHT) / 2 + 4
    else:
        right = x2 > x1
        begin, end = x1 + _WIDTH * right, x2 + _WIDTH * (not right)
        middle = (begin + end) / 2
        line = f"M{begin:.0f} {y1 + _HEIGHT / 2:.0f} H{middle:.0f} V{y2 + _HEIGHT / 2:.0f} H{end:.0f}"
        place = middle - 3 * len(word), y1 + _HEIGHT / 2 - 6 if y1 == y2 else (y1 + y2 + _HEIGHT) / 2
    return f'<path d="{line}"/>' + (_text("word", *place, word) if word else "")


def _text(kind: str, x: float, y: float, text: str) -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f'<text{chosen} x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


if __name__ == "__main__":
    for file, drawn in pictures().items():
        (_HERE / file).write_text(drawn, encoding="utf-8")
