"""The characters of fonts with symbols as letters, by code. Apart from `inline`, because it is a table.

Sources: the Symbol encoding of Adobe (unicode.org, VENDORS/ADOBE/symbol.txt), and the names in Microsoft's lists of Wingdings;
of these only the signs that occur in texts: arrows, check marks, bullets, numbers in circles, signs.
"""

from __future__ import annotations

_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪"
    "〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
)
_SYMBOL_CODES = (*range(0x20, 0x7F), *range(0xA0, 0xF0), *range(0xF1, 0xFF))
_WINGDINGS = {
    **dict(zip(b'"()*?EFGHJKLRTXYZlnoqrtuvw', "✂☎✆✉✍☜☞☝☟☺😐☹☼❄✠✡☪●■□❑❒⧫◆❖⬥", strict=True)),
    **dict(enumerate("⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿", 0x80)),
    **{0x9F: "•", 0xA7: "▪", 0xA8: "◻", 0xAB: "★", 0xD8: "➢", 0xE8: "➔"},
    **dict(enumerate("←→↑↓↖↗↙↘", 0xDF)),
    **dict(enumerate("⇦⇨⇧⇩⇔⇕", 0xEF)),
    **dict(enumerate("✗✔☒☑", 0xFB)),
}
FONTS: dict[str, dict[int, str]] = {
    "symbol": dict(zip(_SYMBOL_CODES, _SYMBOL, strict=True)),
    "wingdings": _WINGDINGS,
    "wingdings 2": {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐", 0x97: "●", 0x98: "•"},
    "wingdings 3": {0x66: "←", 0x67: "→", 0x68: "↑", 0x69: "↓", 0x70: "▲", 0x71: "▼", 0x74: "◀", 0x75: "▶", 0x7D: "▶"},
}
