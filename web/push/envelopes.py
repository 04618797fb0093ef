"""The body of a push: JSON, JSON lines, a form with a file, or the content itself. It never leaves its source's folder.

Only the envelope is read here. The content is parsed in parser processes, as that of every source.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from email.message import Message
from email.parser import HeaderParser
from pathlib import PurePosixPath
from typing import Annotated, Any

import orjson
from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints, ValidationError
from starlette.requests import Request

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


def _written(date: object) -> object:
    """Refuse numbers, of which nobody knows the unit."""
    if not isinstance(date, str) or re.match(r"\d{4}-", date) is None:
        raise ValueError("write it as 2026-03-01T12:00:00+01:00")
    return date


_Line = StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=1_000)

Envelope = tuple[Mapping[str, Any] | bytes, RawContent | None]
"""The fields of a document, or their JSON; and its file."""


class PushFields(Strict):
    """The facts that a program gives of a document. `key`: names it in its source; a push with the same key replaces it.

    One of `text`, `markdown` and `html` is the content, unless that is a file. `address`: the web page that it is.
    """

    key: str | None = None
    text: str | None = None
    markdown: str | None = None
    html: str | None = None
    name: Annotated[str, _Line] | None = None
    title: Annotated[str, _Line] | None = None
    date: Annotated[AwareDatetime, BeforeValidator(_written)] | None = None
    tags: Annotated[tuple[Annotated[str, _Line], ...], Field(max_length=100)] = ()
    address: Annotated[str, _Line, StringConstraints(pattern=r"^https?://[^/?#@]+(?:[/?#]|$)")] | None = None
    source: str | None = None

    def document(self, pusher: str, file: RawContent | None, default_key: str | None) -> tuple[str, RawContent]:
        """Return the key and the content of the document. Raises BadInput."""
        texts = [(name, text) for name in _TEXTS if (text := getattr(self, name)) is not None]
        if len(texts) + (file is not None) != 1:
            raise BadInput("give one of text, markdown, html and a file")
        if file is None:
            name, text = texts[0]
            if "\0" in text:
                raise BadInput(f"{name}: has a NUL character; remove it")
            file = RawContent(text.encode("utf-8", "replace"), "", media_type=_TEXTS[name][0], encoding="utf-8")
        data, media_type = file.data, file.media_type or ""
        if self.tags:
            if media_type not in ("text/plain", "text/markdown") or data.startswith(b"---\n"):
                raise BadInput("tags: only of a text or Markdown without front matter, which has its own")
            data, media_type = b"---\ntags: %b\n---\n" % orjson.dumps(self.tags) + data, "text/markdown"
        name = PurePosixPath((self.name or file.name).replace("\\", "/")).name
        ending = _ENDINGS.get(media_type, "")
        what = self.address.encode() if self.address else name.encode() + b"\0" + data
        key = self.key or default_key or pushed_files.key_of(what, ending or PurePosixPath(name).suffix)
        name = name or key
        address = self.address or ""
        raw = RawContent(
            data,
            name if name.endswith(ending) else name + ending,
            self.title,
            media_type or None,
            self.date,
            {"pushed_by": pusher, **({"url": address} if address else {})},
            file.encoding,
            address if media_type == "text/html" else "",
        )
        return key, raw


def fields_of(values: Mapping[str, Any] | bytes) -> PushFields:
    """Return the fields of a document, of which JSON was not read yet. Raises BadInput."""
    try:
        if isinstance(values, bytes):
            if len(values) > _MOST_JSON:
                raise BadInput(f"body: at most {_MOST_JSON // 1_000_000} MB of JSON; send a file as it is")
            return PushFields.model_validate_json(values)
        return PushFields.model_validate(values)
    except ValidationError as invalid:
        raise BadInput(problem_of(invalid)) from None


def envelopes_of(request: Request, body: bytes, key: str | None) -> tuple[str, list[Envelope]]:
    """Return the form of a request, "batch", "form" or "", and its documents. `key`: from its address. Raises BadInput."""
    if "content-encoding" in request.headers:
        raise BadInput("Content-Encoding: send the body as it is")
    content = _headers("".join(f"content-type: {value}" for value in request.headers.getlist("content-type")[:1]))
    match content.get_content_type():
        case "application/x-ndjson" | "application/jsonl" if key is None:
            lines = body.removesuffix(b"\n").split(b"\n", MOST_LINES)
            if len(lines) > MOST_LINES:
                raise BadInput(f"body: more than {MOST_LINES:,} lines; send several requests")
            return "batch", [(line.strip(), None) for line in lines]
        case "application/json":
            return "", [(body, None)]
        case "multipart/form-data":
            return "form", [_form(content.get_boundary() or "", body)]
        case "application/x-www-form-urlencoded":
            # The default of curl, whatever the body is.
            raise BadInput("Content-Type: application/x-www-form-urlencoded has no document; name the type of the body")
    return "", [(_fields(request.query_params.multi_items()), _file(content, key or "", body))]


def _form(boundary: str, body: bytes) -> Envelope:
    """Return the fields of a form (RFC 7578), and its file."""
    fields, files = [], []
    *parts, end = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), _MOST_FIELDS)
    if not boundary or not end.startswith(b"--"):
        raise BadInput(f"body: the form has no boundary, no end, or more than {_MOST_FIELDS} fields")
    for part in parts[1:]:
        head, _, data = part.partition(b"\r\n\r\n")
        headers = _headers(head.strip().decode("utf-8", "replace"))
        name = str(headers.get_param("name", "", "content-disposition"))
        if (file_name := headers.get_filename()) is None:
            fields.append((name, data.decode("utf-8", "replace")))
        elif file_name:
            files.append(_file(headers, file_name, data))
    if len(files) > 1:
        raise BadInput("body: more than one file; send each in a request of its own")
    return _fields(fields), files[0] if files else None


def _file(headers: Message, name: str, data: bytes) -> RawContent:
    encoding = None
    with suppress(LookupError, ValueError):
        encoding = codecs.lookup(headers.get_content_charset() or "").name
    return RawContent(data, name, media_type=headers.get_content_type(), encoding=encoding)


def _headers(head: str) -> Message:
    headers = HeaderParser().parsestr(head)
    headers.set_default_type("application/octet-stream")
    return headers


def _fields(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name == "tags":
            fields.setdefault(name, []).extend(tag.strip() for tag in value.split(",") if tag.strip())
        elif name in fields:
            raise BadInput(f"{name}: given twice")
        elif value:
            fields[name] = value
    return fields
