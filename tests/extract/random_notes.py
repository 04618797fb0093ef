"""Generate random notes with many marks of code, comments and formulas. Links, tags and block ids are unique."""

from __future__ import annotations

import random

_LEADS = ["", "", "", "", "- ", "- ", "1. ", "2) ", "* ", "> ", "> ", ">", "  ", "   ", "    ", "\t", "      ", "-\t"]
_LEADS += ["> - ", "- > ", "- - ", "-     ", "        ", "\t\t", "> > ", ">     ", "+ ", "10. "]
_INLINE = ["`", "`", "``", "`x`", "`x y`.", "(`make`),", "$", "$x$", "$x$.", "$5", "$5 …", "$$", "$$x$$", "%%", "%%x%%"]
_INLINE += [
    "\\`",
    "\\$",
    "<!-- x -->",
    "<!--",
    "-->",
    "<b title='`'>",
    "</b>",
    "|",
    "\\|",
    "word",
    "word",
    "and",
    "**bold**",
]
_FIRST = [word for word in _INLINE if word not in ("$$", "%%")]
"""The reference parser lacks the rule that `$$` and `%%` at the start of a line span blocks."""
_LINES = [
    "",
    "",
    "",
    "",
    "```",
    "```",
    "``` py",
    "````",
    "~~~",
    "~~~ md",
    "---",
    "===",
    "# head",
    "***",
    "- - -",
    "-",
    ">",
    "1.",
]
_LINES += [
    "<pre>",
    "</pre>",
    "<div>",
    "</div>",
    "<details><summary>x</summary>",
    "<!--",
    "-->",
    "<b>",
    "<style>",
    "</style>",
]
_LINES += [
    "| a | b |\n|---|---|",
    "|---|---|",
    "| a |\n| - |",
    "  ",
    "<!-- x -->",
    "<script>x</script>",
    "<pre>x</pre>",
]


def random_note(seed: int) -> str:
    """Return a note of about 4 to 16 lines with links `[[n1]]`, tags `#t2` and block ids `^b3`."""
    choose = random.Random(seed)
    count = 0
    lines = []
    for _ in range(choose.randint(4, 16)):
        if choose.random() < 0.4:
            lines.append(choose.choice(_LEADS[:12]) * (choose.random() < 0.4) + choose.choice(_LINES))
            continue
        words = []
        for _ in range(choose.randint(1, 5)):
            if choose.random() < 0.4:
                count += 1
                words.append(f"[[n{count}]]" if choose.random() < 0.7 else f"#t{count}")
            else:
                words.append(choose.choice(_INLINE if words else _FIRST))
        if choose.random() < 0.15:
            count += 1
            words.append(f"^b{count}")
        lines.append(choose.choice(_LEADS) + " ".join(words))
    return "\n".join(lines) + "\n"
