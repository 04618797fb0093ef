"""The body of a push: JSON, JSON lines, a form with a file, or the content itself. It never leaves its source's folder.

Only the envelope is read here. The content is parsed in parser processes, as that of every source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

import orjson
from pydantic import AwareDatetime, Field, StringConstraints, TypeAdapter, ValidationError

from catchment.content import pushed_files
from catchment.errors import BadInput
from catchment.model import RawContent
from catchment.settings import Strict
from web.json_interface import problem_of

MOST_LINES = 1_000
_MOST_JSON = 10_000_000
"""Each value of JSON takes up to 16 times as much memory."""
_MOST_FIELDS = 20
_TEXTS = {"text": ("text/plain", ".txt"), "markdown": ("text/markdown", ".md"), "html": ("text/html", ".html")}
"""The fields with a text: its media type, and the ending of its name."""
_ENDINGS = dict(_TEXTS.values())
_NAME, _FILE = re.compile(rb'[; ]name="([^"]*)"'), re.compile(rb'[; ]filename="([^"]*)"')
_MEDIA = re.compile(rb"content-type:[ \t]*([^\s;]+)", re.IGNORECASE)

_Line = StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=1_000)


class PushFields(Strict):
    """The facts that a program gives of a document. `key`: names it in its source; a push with the same key replaces it.

    One of `text`, `markdown` and `html` is the content, unless that is a file. `address`: the web page that it is.
    """

    key: Annotated[str, StringConstraints(pattern=f"^{pushed_files.KEY.pattern}$")] | None = None
    text: str | None = None
    markdown: str | None = None
    html: str | None = None
    name: Annotated[str, _Line] | None = None
    title: Annotated[str, _Line] | None = None
    date: AwareDatetime | None = None
    tags: Annotated[tuple[Annotated[str, _Line], ...], Field(max_length=100)] = ()
    address: Annotated[str, _Line, StringConstraints(pattern=r"^https?://")] | None = None
    source: str | None = None

    def document(self, pusher: str, file: RawContent | None = None) -> tuple[str, RawContent]:
        """Return the key and the content of the document. Raises BadInput."""
        texts = [(name, text) for name in _TEXTS if (text := getattr(self, name)) is not None]
        if len(texts) + (file is not None) != 1:
            raise BadInput("give one of text, markdown, html and a file")
        if file is None:
            (kind, text), encoding = texts[0], "utf-8"
            media_type, data = _TEXTS[kind][0], text.encode("utf-8", "replace")
        else:
            kind, encoding, media_type, data = "file", None, file.media_type or "", file.data
        if self.tags:
            if kind not in ("text", "markdown") or data.startswith(b"---\n"):
                raise BadInput("tags: only of a text or Markdown without front matter, which has its own")
            data = b"---\ntags: %b\n---\n" % orjson.dumps(self.tags) + data
            media_type = "text/markdown"
        name = PurePosixPath((self.name or (file and file.name) or "").replace("\\", "/")).name
        ending = _ENDINGS.get(media_type, "")
        what = self.address.encode() if self.address else name.encode() + b"\0" + data
        key = self.key or pushed_files.key_of(what, ending or PurePosixPath(name).suffix)
        name = name or key
        is_page = media_type == "text/html" and self.address
        raw = RawContent(
            data,
            name if name.endswith(ending) else name + ending,
            self.title,
            media_type or None,
            self.date,
            {"pushed_by": pusher, **({"url": self.address} if self.address else {})},
            encoding,
            self.address or "" if is_page else "",
        )
        return key, raw


_FIELDS = TypeAdapter(PushFields)


def fields_of(values: Mapping[str, Any] | bytes) -> PushFields:
    """Return the fields of a document from JSON, a query or a form. Raises BadInput."""
    try:
        if isinstance(values, bytes):
            if len(values) > _MOST_JSON:
                raise BadInput(f"body: at most {_MOST_JSON // 1_000_000} MB of JSON; send a file as it is")
            return _FIELDS.validate_json(values)
        return _FIELDS.validate_python(values)
    except ValidationError as invalid:
        raise BadInput(problem_of(invalid)) from None


def lines_of(body: bytes) -> list[bytes]:
    """Return the lines of a batch. Raises BadInput if there are too many."""
    if body.count(b"\n") > MOST_LINES:
        raise BadInput(f"body: more than {MOST_LINES:,} lines; send several requests")
    return [line for line in body.split(b"\n") if line.strip()]


def form_of(content_type: str, body: bytes) -> tuple[dict[str, Any], RawContent | None]:
    """Return the fields of a form (RFC 7578), and its file. Raises BadInput."""
    boundary = re.search(r'boundary="?([^";,\s]{1,70})', content_type)
    if boundary is None:
        raise BadInput("Content-Type: the boundary of the form is missing")
    fields: dict[str, Any] = {}
    file = None
    for head, data in _parts(body, boundary[1].encode()):
        name, file_name, media = _NAME.search(head), _FILE.search(head), _MEDIA.search(head)
        if name and file_name is None:
            fields[name[1].decode("utf-8", "replace")] = data.decode("utf-8", "replace")
        elif name and file_name:
            media_type = media[1].decode("ascii", "replace").lower() if media else None
            file = RawContent(data, file_name[1].decode("utf-8", "replace"), media_type=media_type)
    if "tags" in fields:
        fields["tags"] = [tag.strip() for tag in fields["tags"].split(",")]
    return {name: value for name, value in fields.items() if value}, file


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[bytes, bytes]]:
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary, _MOST_FIELDS)[1:]:
        if not part.startswith(b"\r\n"):
            return
        head, _, data = part.partition(b"\r\n\r\n")
        yield head, data
    raise BadInput(f"body: the form has no end, or more than {_MOST_FIELDS} fields")
