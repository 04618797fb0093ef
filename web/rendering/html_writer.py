"""Write HTML from the tokens of a text. Every tag and attribute that a document can have is written here, or in `formula`.

Texts are escaped. An address becomes a link only if it leads to a document of the library, or to http, https or mailto
elsewhere. Remote pictures become links. Ids start with `t-` and never equal an id of the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote, urlsplit

from markdown_it.token import Token
from markupsafe import Markup, escape

from catchment.content.extract.plain import urls
from catchment.model import Link, LinkKind
from catchment.search.present import TASK_MARKS
from catchment.views.reading import FileKind, ReadingView, file_kind
from web.rendering.formula import mathml

_BLOCKS = {"paragraph": "p", "bullet_list": "ul", "thead": "thead", "tbody": "tbody", "tr": "tr"}
_MARKS = {"em": "em", "strong": "strong", "s": "s", "mark": "mark"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_OUTSIDE = re.compile(r"(?:https?://[^\s/?#\\]|mailto:[^\s\\])", re.IGNORECASE)
_SAFE_CHARACTERS = ":/?#[]@!$&'*+,;=%-._~()"
"""The characters of an address that are not percent-encoded (RFC 3986)."""
_WORDS = re.compile(r"[^\w]+")
_LANGUAGE = re.compile(r"[a-z][a-z0-9-]{0,30}")
_WIDTH = re.compile(r"(?:.*\|)?([1-9][0-9]{0,3})(?:x[0-9]+)?", re.DOTALL)
_HIDDEN_HTML = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[!?][^<>]*>")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_REPLACEMENTS = dict.fromkeys((*range(32), *range(127, 160), 8237, 8238, 65534, 65535), "�")
_REPLACEMENTS |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_REPLACEMENTS |= {0x09: "\t", 0x0A: "\n", 0x0D: "\n", 0x85: "\n", 0x2028: "\n", 0x2029: "\n"}
_REPLACEMENTS_IN_CODE = _REPLACEMENTS | dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
"""Directional marks can hide the effect of code from its reader (CVE-2021-42574)."""
_TASKS = {" ": ("open", "Open"), "x": ("done", "Done"), "X": ("done", "Done")}
_TASKS |= {"/": ("half", "Half done"), "-": ("off", "Dropped"), ">": ("open", "Forwarded")}
_CALLOUTS = re.compile(
    "abstract|attention|bug|caution|check|cite|danger|done|error|example|fail(?:ure)?|faq|help|hint|important|info|missing|note|"
    "question|quote|success|summary|tip|tldr|todo|warning"
)


def document_address(number: int, anchor: str = "") -> str:
    """Return the address of a document's page, at a heading or block as a link names it."""
    return f"/documents/{number}{_fragment(anchor)}"


def file_address(number: int, embed: str | None = None) -> str:
    """Return the address of a document's own file, or of a file that its text embeds."""
    return f"/documents/{number}/file{'' if embed is None else '?embed=' + quote(embed, safe='', errors='replace')}"


def clean(text: str, *, is_code: bool = False) -> str:
    """Replace control characters, lone surrogates and directional overrides, and unify line ends."""
    text = text.replace("\r\n", "\n")
    table = _REPLACEMENTS_IN_CODE if is_code else _REPLACEMENTS
    return text if text.isascii() and text.isprintable() else text.translate(table)


def _id(anchor: str) -> str:
    """Return the id of a heading, of the last heading of a path (`Heading#Sub`), or of a block (`^id`); "" if it has none."""
    slug = _slug(anchor.rpartition("#")[2])
    return slug and f"t-block-{slug}" if anchor.startswith("^") else slug and f"t-{slug}"


def _fragment(anchor: str) -> str:
    name = _id(anchor)
    return name and f"#{name}"


def _slug(words: str) -> str:
    return _WORDS.sub("-", clean(words).lower()).strip("-")[:200]


class HtmlWriter:
    """Writes one text. Without a document, it has no links to other documents, and no ids."""

    def __init__(self, reading: ReadingView | None, *, has_line_breaks: bool) -> None:
        self._reading = reading
        self._line_end = "<br>\n" if has_line_breaks else "\n"
        self._parts: list[str] = []
        self._ids: set[str] = set()
        self._links: list[bool] = []
        """For each open link, whether it was written."""
        self._quotes: list[str] = []
        """The closing tags of open quotations."""
        self._shift = 0

    def write(self, tokens: Sequence[Token]) -> Markup:
        """Return the HTML of these tokens."""
        tokens = self._without_title(tokens)
        self._shift = int(any(token.type == "heading_open" and token.tag == "h1" for token in tokens))
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                self._heading(token, self._new_id(_id(tokens[place + 1].content)))
            else:
                self._block(token)
        return Markup("".join(self._parts))

    def _without_title(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """Leave out a first heading that repeats the title of the page."""
        is_heading = len(tokens) > 2 and tokens[0].type == "heading_open" and self._reading is not None
        return tokens[3:] if is_heading and self._reading and _same(tokens[1], self._reading.shown.title) else tokens

    def _put(self, tag: str, **attributes: str | int | None) -> None:
        """Write an opening tag."""
        text = "".join(
            f' {name.strip("_").replace("_", "-")}="{escape(value)}"'
            for name, value in attributes.items()
            if value is not None
        )
        self._parts.append(f"<{tag}{text}>")

    def _text(self, text: str) -> None:
        self._parts.append(str(escape(text)))

    def _new_id(self, name: str) -> str | None:
        if self._reading is None or not name or name in self._ids:
            return None
        self._ids.add(name)
        return name

    # Blocks

    def _block(self, token: Token) -> None:
        name = token.type.removesuffix("_open").removesuffix("_close")
        match name:
            case "inline":
                self._inline(token.children or [])
            case "paragraph" if token.hidden:
                self._hidden(token)
            case "heading":
                self._heading(token, None)
            case "blockquote":
                self._quotation(token)
            case "list_item":
                self._item(token)
            case "ordered_list" | "table" | "th" | "td":
                self._numbered_or_table(name, token)
            case "fence" | "code_block":
                self._code(token)
            case "hr":
                self._parts.append("<hr>\n")
            case "math_block":
                self._formula(token)
            case "html_block":
                self._html(token.content)
            case _:
                self._simple(_BLOCKS[name], token)

    def _simple(self, tag: str, token: Token) -> None:
        if token.nesting < 0:
            self._parts.append(f"</{tag}>\n")
        elif note := token.meta.get("footnote"):
            self._put(tag, class_="footnote", id=self._new_id(f"t-note-{_slug(note)}"))
            self._parts.append(f"<sup>{escape(note)}</sup> ")
        else:
            self._put(tag, id=self._block_id(token))

    def _hidden(self, token: Token) -> None:
        """Write the id of a paragraph that is not written itself, such as that of an item in a dense list."""
        if token.nesting < 0:
            self._parts.append("\n")
        elif name := self._block_id(token):
            self._put("span", id=name)
            self._parts.append("</span>")

    def _block_id(self, token: Token) -> str | None:
        block = token.meta.get("block")
        return self._new_id(_id(f"^{block}")) if block else None

    def _heading(self, token: Token, name: str | None) -> None:
        tag = f"h{min(6, max(2, int(token.tag[1]) + self._shift))}"
        if token.nesting < 0:
            self._parts.append(f"</{tag}>\n")
        else:
            self._put(tag, id=name)

    def _quotation(self, token: Token) -> None:
        if token.nesting < 0:
            self._parts.append(self._quotes.pop())
            return
        kind, fold, title = token.meta.get("callout", ("", "", ""))
        if not kind:
            self._parts.append("<blockquote>\n")
            self._quotes.append("</blockquote>\n")
            return
        name = kind if _CALLOUTS.fullmatch(kind) else "note"
        self._put("details" if fold else "div", class_=f"callout {name}", open="" if fold == "+" else None)
        tag = "summary" if fold else "p"
        self._put(tag, class_="callout-title")
        self._text(title or kind.capitalize())
        self._parts.append(f"</{tag}>\n")
        self._quotes.append("</details>\n" if fold else "</div>\n")

    def _item(self, token: Token) -> None:
        if token.nesting < 0:
            self._parts.append("</li>\n")
            return
        if (status := token.meta.get("task")) is None:
            self._put("li")
            return
        name, words = _TASKS.get(status, ("open", "Other"))
        self._put("li", class_=f"task {name}")
        self._put("span", class_="box", role="img", aria_label=words)
        self._text(TASK_MARKS.get(status, status))
        self._parts.append("</span> ")

    def _numbered_or_table(self, name: str, token: Token) -> None:
        if token.nesting < 0:
            closing = {"ordered_list": "</ol>\n", "table": "</table></div>\n"}
            self._parts.append(closing.get(name, f"</{name}>"))
        elif name == "ordered_list":
            start = token.attrGet("start")
            self._put("ol", start=start if isinstance(start, int) else None)
        elif name == "table":
            self._put("div", class_="wide", role="region", tabindex=0, aria_label="Table")
            self._put("table")
        else:
            side = str(token.attrGet("style") or "").removeprefix("text-align:")
            self._put(name, class_=side if side in ("right", "center") else None)

    def _code(self, token: Token) -> None:
        words = token.info.lower().split()
        language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else None
        caption = "<figcaption>Diagram in Mermaid</figcaption>" if language == "mermaid" else ""
        self._parts.append(f'<figure class="diagram">{caption}' if caption else "")
        self._put("pre", tabindex=0)
        self._put("code", class_=f"language-{language}" if language else None)
        self._text(clean(token.content, is_code=True))
        self._parts.append(f"</code></pre>{'</figure>' if caption else ''}\n")

    def _formula(self, token: Token) -> None:
        """Write a formula as MathML, or as typed if it cannot be read."""
        is_block = token.type == "math_block"
        if (formula := mathml(token.content, is_block=is_block)) is not None:
            self._parts.append(str(formula))
            return
        self._put("code")
        self._text(clean(token.content.strip(), is_code=True))
        self._parts.append("</code>")

    def _html(self, content: str) -> None:
        """Write the text in HTML without its tags."""
        if words := _TAG.sub(" ", _HIDDEN_HTML.sub("", content)).strip():
            self._put("p")
            self._linked_text(" ".join(words.split()))
            self._parts.append("</p>\n")

    # Text

    def _inline(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            match token.type:
                case "text" | "text_special":
                    self._linked_text(token.content)
                case "softbreak":
                    self._parts.append(self._line_end)
                case "hardbreak":
                    self._parts.append("<br>\n")
                case "code_inline":
                    self._put("code")
                    self._text(clean(token.content, is_code=True))
                    self._parts.append("</code>")
                case "html_inline":
                    self._parts.append("<br>" if _BREAK.fullmatch(token.content) else "")
                case "link_open":
                    self._open_link(str(token.attrGet("href") or ""))
                case "link_close":
                    self._close_link()
                case "image":
                    self._image(str(token.attrGet("src") or ""), token.content)
                case "wikilink":
                    self._wikilink(token.meta["link"])
                case "footnote":
                    self._footnote(token.content)
                case "math_inline" | "math_block":
                    self._formula(token)
                case _:
                    tag = _MARKS[token.type.removesuffix("_open").removesuffix("_close")]
                    self._parts.append(f"</{tag}>" if token.nesting < 0 else f"<{tag}>")

    def _linked_text(self, text: str) -> None:
        """Write a text, with the addresses of web pages in it as links."""
        position = 0
        for link in urls(text) if "://" in text and not any(self._links) else ():
            self._text(text[position : link.start])
            self._open_link(link.target)
            self._text(text[link.start : link.end])
            self._close_link()
            position = link.end
        self._text(text[position:])

    def _open_link(self, target: str) -> None:
        is_inside = any(self._links)
        address = None if is_inside else self._address(target)
        self._links.append(address is not None)
        if address is None:
            return
        if _OUTSIDE.match(address):
            self._put("a", href=address, rel="noopener noreferrer", target="_blank", class_="outside")
        else:
            self._put("a", href=address)

    def _close_link(self) -> None:
        if self._links.pop():
            self._parts.append("</a>")

    def _address(self, target: str) -> str | None:
        """Return the address that a link leads to; None if the target is missing or not permitted."""
        target = target.strip()
        if _OUTSIDE.match(target):
            address = quote(target, safe=_SAFE_CHARACTERS, errors="replace")
            return address if _host(address) or address.lower().startswith("mailto:") else None
        if _SCHEME.match(target) or target.startswith(("//", "\\")):
            return None
        path, _, anchor = target.partition("#")
        return self._in_library(unquote(path).strip(), unquote(anchor).strip())

    def _in_library(self, target: str, anchor: str) -> str | None:
        if self._reading is None:
            return None
        if not target:
            return _fragment(anchor) or None
        document = self._reading.targets.get(target)
        return document_address(document.document, anchor) if document else None

    def _wikilink(self, link: Link) -> None:
        label = link.label or " › ".join(filter(None, (link.target, link.anchor.lstrip("^").replace("#", " › "))))
        if link.kind is LinkKind.EMBED and self._is_picture(link.target):
            self._picture(link.target, link.target.rpartition("/")[2], link.label)
            return
        address = None if any(self._links) else self._in_library(link.target, link.anchor)
        if address is None:
            self._put("span", class_="missing")
            self._text(label)
            self._parts.append("</span>")
            return
        self._put("a", href=address, class_="embed" if link.kind is LinkKind.EMBED else None)
        self._text(label)
        self._parts.append("</a>")

    def _is_picture(self, target: str) -> bool:
        file = self._reading.targets.get(target) if self._reading and self._reading.has_files else None
        return file is not None and file_kind(file.locator) is FileKind.PICTURE

    def _picture(self, target: str, label: str, size: str = "") -> None:
        assert self._reading is not None
        width = _WIDTH.fullmatch(size)
        address = file_address(self._reading.shown.document, target)
        self._put("img", src=address, alt=label, width=width[1] if width else None, loading="lazy")

    def _image(self, source: str, label: str) -> None:
        """Write a picture of the library as an image, any other as a link: loading it would inform its host."""
        target = unquote(source.partition("#")[0]).strip()
        if not _SCHEME.match(source) and self._is_picture(target):
            self._picture(
                target, label.partition("|")[0] or target.rpartition("/")[2], label.partition("|")[2] or label
            )
            return
        self._open_link(source)
        host = _host(source)
        self._text(f"{label or 'Picture'} (picture{f' at {host}' if host else ''})")
        self._close_link()

    def _footnote(self, name: str) -> None:
        self._parts.append("<sup>")
        self._open_link(f"#note-{_slug(name)}")
        self._text(name)
        self._close_link()
        self._parts.append("</sup>")


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _same(inline: Token, title: str) -> bool:
    return " ".join(inline.content.split()).casefold() == " ".join(title.split()).casefold()
