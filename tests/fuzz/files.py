"""Targets for folder contents: notes, pages, canvases, programs, archives, pictures, office files, ignore files."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from catchment.content.extract.resolve import VaultIndex, anchor_exists
from catchment.content.normalize.decode import decode, is_text
from catchment.content.normalize.formats import ENDINGS, media_type
from catchment.content.redaction import redact
from catchment.content.secret_masking import mask
from connectors.folders.file import to_locator, to_path
from connectors.folders.ignore import IgnoreRules
from tests.fuzz.promises import read, storable
from tests.fuzz.target import Target, damaged, woven
from tests.normalize.samples import mobipocket_book

_NOTE = """
# H
## Sub ##
Title␤===
- [ ] task
- [x] done 2026-01-31
1.␠
>␠
> [!note]- Title
[[Note]]
[[Note#Heading|label]]
[[a\\|b]]
![[pic.png|100]]
[[
]]
[label](to%20there.md#x "t")
[a](<b c>)
](
![](
#tag/sub
key:: value
[in:: line]
^block-1
[^1]
[^1]: foot
^[inline]
`code`
```py␤
```
~~~
$x$
$$
%%
<!--
-->
https://example.org/a_(b)).
ada@example.org
2026-02-30
---␤
    indented
␉
| a | b |␤|---|---|
\\
<p>
&amp;
"""
_PROPERTIES = """
---␤
title: x␤
tags: [a, "b", 'c']␤
aliases:␤  - y␤
date: 2026-01-31␤
created: 0001-01-01T00:00:00+14:00␤
author: "[[Ada]]"␤
a: !!bool maybe␤
b: !!timestamp x␤
c: !!binary ab==␤
d: !!set {1, 2}␤
e: 123456789012345678901234567890␤
f: 0xffffffffffffffffffff␤
g: 1e400␤
h: .inf␤
i: ~␤
? [k]␤: v␤
&a
*a
<<: *a␤
!!merge <<: {x: y}␤
[
{
|␤  text␤
>-␤  text␤
"\\ud800"
'
:␠
-␠
%YAML 1.1␤
...␤
# c␤
\u0085
"""
_PAGE = """
<html>
<head>
<title>t</title>
<meta charset=latin1>
<meta name=author content=Ada>
<meta property="article:published_time" content="0001-01-01T00:00:00+14:00">
<body>
<p>
</p>
<h1>h
<ul><li>
<ol><li>
</ul>
<table><tr><td>
<blockquote>
</blockquote>
<pre>
</pre>
<a href="x y">
</a>
<img src=x alt=y>
<br>
<script>
<style>
<!--
-->
<![CDATA[
&#0;
&#xd800;
&#x1b;
&nbsp;
<svg>
<template>
<math>
<
>
"
"""
_WEB = """
<base href="//[x">
<a href="http://[1">
<a href="../x y">
<nav>
<article>
<figure>
<link rel=canonical href="x">
<meta property=og:title content="a | b - c">
<script type="application/ld+json">{"@type":"Article","datePublished":"9999-12-31T23:59:59-14:00","author":[{"name":1},"x"]
}</script>
<script type="application/ld+json">[[{"@type":["Blog",1],"name":["x"]}]]</script>
<time datetime="2026-01-31">
<input type=password>
The council voted late on Tuesday to build the line between the harbour and the university.
\u00ad
"""
_CANVAS = """
{"nodes":[
],"edges":[
]}
{"id":"a","type":"text","text":"# [[x]]"},
{"id":"b","type":"file","file":"a.md","subpath":"#h"},
{"id":"c","type":"link","url":"https://x"},
{"id":"d","type":"group","label":"g"}
{"fromNode":"a","toNode":"b","label":"l"}
"\\ud800"
"\\u0000"
null
[
{
1e999
"cells":[
"cell_type":"code","source":["x","y"]
"metadata":{"language_info":{"name":"python"}}
"""
_PROGRAM = """
def f(x):␤
class A:␤
function f() {
}
const a = () =>
interface I {
impl X for Y {
fn g() -> u8 {
func (r *T) m() {
#define X(y)
package p;
<?php
{
(
[
"
'
/*
*/
//
#␠
@x␤
;
\\
    return 1␤
"""
_PATTERNS = """
*.md␤
/build/␤
docs/**␤
**/x␤
!keep␤
a/**/b␤
[a-z]␤
[!a]␤
[␤
[]]␤
\\
\\!␤
*␤
**␤
?␤
/␤
␠␤
#x␤
a\\ ␤
[[:alpha:]]␤
[z-a]␤
\u0130␤
"""
_SECRETS = """
password = "
token: "
aB3xY9kLmN0pQ7rS2tUv
AKIAABCDEFGHIJKLMNOP
ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789
eyJhbGciOiJIUzI1NiJ9
.
://u:s3cretPass@host
-----BEGIN RSA PRIVATE KEY-----
-----END RSA PRIVATE KEY-----
API_KEY=
"
=
aws secret key:
/home/ada/file.txt
C:\\Users\\ada\\x
authorization: bearer␠
«secret»
"""
_LINES = """
BEGIN:VCALENDAR␤
BEGIN:VEVENT␤
BEGIN:VCARD␤
VERSION:2.1␤
END:VCARD␤
SUMMARY:
DTSTART;TZID=X:
20260314T180000Z
NOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=utf-16:
=C3=BC=␤
PHOTO;ENCODING=b:AAEC
;X="
\\,
\\n
␤␠
WEBVTT␤␤
00:01.000 --> 00:02.000␤
<v Ada>
From a@b Sat Mar 14 18:00:00 2026␤
From: a@b␤
Content-Type: multipart/related; boundary=b␤
Content-Type: text/html␤␤
Content-Location: http://[␤
MIME-Version: 1.0␤
--b␤
12␤
<p>
"""
_ELEMENTS = """
<mxfile>
<diagram name="P">
</diagram>
<mxGraphModel><root><mxCell value="&lt;p&gt;"/>
jVBLDoIwFDxN1
%3CmxGraphModel
<kml><Document><name>
<description><![CDATA[<p>
]]></description>
<gpx><time>0001-01-01T00:00:00+14:00</time>
<opml><outline text="x">
</outline>
<en-export><note><content>
<en-crypt>
<Workbook><Row><Data>
<pkg:package><p><t>
<!DOCTYPE x [<!ENTITY a "b">]>
<office:document office:mimetype="application/vnd.oasis.opendocument.text">
</
>
"""
_NAMES = "\n".join([*sorted(ENDINGS), "Makefile", "a.tar.gz", "noending", "x.MD", ".md"])


def targets() -> Iterator[Target]:
    """Return the targets for everything that a folder can contain."""
    yield Target("note", _file("n.md"), woven(_NOTE))
    yield Target("properties", _properties, woven(_PROPERTIES))
    yield Target("page", _file("p.html"), woven(_PAGE))
    yield Target("web-page", _web_page, woven(_PAGE + _WEB))
    yield Target("canvas", _file("c.canvas"), woven(_CANVAS))
    yield Target("notebook", _file("n.ipynb"), woven(_CANVAS))
    yield Target(
        "content-lines", _files("a.ics", "a.vcf", "a.vtt", "a.mbox", "a.mht", "a.emlx", "a"), woven(_LINES, most=40)
    )
    yield Target("elements", _files("a.drawio", "a.kml", "a.xml", "a.excalidraw", "a.fodt", "a.svg"), woven(_ELEMENTS))
    yield Target("e-book", _file("a.mobi"), damaged(mobipocket_book("<p>The weir was raised by eleven.</p>")))
    for name in ("py", "js", "ts", "go", "rs", "c", "php", "sh"):
        yield Target(f"program-{name}", _file(f"p.{name}"), woven(_PROGRAM))
    yield Target("zip", _file("z.zip"), damaged(_zip(), _zip()[:40]))
    yield Target("tar", _file("t.tar"), damaged(_tar()))
    yield Target("gzip", _file("g.md.gz"), damaged(gzip.compress(b"# words", mtime=0), gzip.compress(_zip(), mtime=0)))
    yield Target("picture", _picture, damaged(*_PICTURES))
    yield Target("drawing", _file("d.svg"), woven('<svg width="1"\n<title>t</title>\n<desc>\n<\n>\n</svg>\n&#0;'))
    yield Target("any-type", _any_type, woven(_SIGNED + _NAMES.replace("\n", "\x00\n")))
    yield Target(
        "encoding", _encoding, woven("utf-16\x00\nutf-7\x00\niso-2022-jp\x00\nhz\x00\ncp037\x00\nidna\x00\nä\n\\x")
    )
    yield Target("masking", _masking, woven(_SECRETS))
    yield Target("redaction", _redaction, woven(_SECRETS))
    yield Target("file-names", _file_names, woven("a\n/\n\ufffd\n\ufffdff\n\ufffd\ufffd\n..\nä"))
    yield Target("ignore-file", _ignore_file, woven(_PATTERNS))
    yield Target("vault-links", _vault_links, woven("note\n.md\n/\n../\n./\n#\n^\n|\nA\nä\n\u00a0\n..\n"))


def _file(name: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        document = read(data, name)
        if document is not None:
            storable(document.text)

    return check


def _files(*names: str) -> Callable[[bytes], None]:
    checks = [_file(name) for name in names]

    def check(data: bytes) -> None:
        for each in checks:
            each(data)

    return check


def _web_page(data: bytes) -> None:
    document = read(data, "p.html", "https://example.org/a/b")
    if document is not None:
        storable(document.text)
        storable(document.properties)


def _properties(data: bytes) -> None:
    document = read(b"---\n" + data + b"\n---\nwords\n", "n.md")
    if document is None:
        assert not is_text(b"---\n" + data), "a broken block stays in the text"
        return
    assert "words" in document.text
    storable(document.properties)


def _picture(data: bytes) -> None:
    for name in ("p.png", "p.jpg", "p.webp", "p.bmp", "p.gif", "p"):
        read(data, name)


def _any_type(data: bytes) -> None:
    """The first part is the file name, the rest its content. Names of the same type must give the same result."""
    name, _, content = data.partition(b"\x00")
    called = name.decode("utf-8", "replace").replace("/", "_") or "x"
    kind = media_type(content, called)
    assert kind == media_type(content, called)
    read(content, called)


def _encoding(data: bytes) -> None:
    name, _, content = data.partition(b"\x00")
    text = decode(content, name.decode("latin-1")).text
    assert "\r" not in text
    assert "\x00" not in text


def _masking(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    once = mask(text)
    assert mask(once) == once, "what is masked stays as it is"


def _redaction(data: bytes) -> None:
    said = redact(data.decode("utf-8", "replace"))
    assert len(said) <= 500
    assert said.isprintable()


def _file_names(data: bytes) -> None:
    name = data.replace(b"\x00", b"").decode("utf-8", "surrogateescape")
    locator = to_locator(name)
    storable(locator)
    assert to_path(locator) == name
    to_path(data.decode("utf-8", "replace"))


def _ignore_file(data: bytes) -> None:
    """An ignore file never fails, and its decisions on folders and files are repeatable."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".ignore").write_bytes(data)
        layer = IgnoreRules(ignore_files=(".ignore",)).top().enter("", folder)
        for path in ("a.md", "docs/x/b.md", "build/c", "keep", "ä [1].md"):
            for is_folder in (True, False):
                assert layer.why_not(path, folder=is_folder) in (None, "excluded by .ignore")
    patterns = tuple(data.decode("utf-8", "replace").split("\n"))
    with suppress(ValueError):  # settings refuse an invalid pattern when they are read
        IgnoreRules(include=patterns, exclude=patterns[:1]).top().why_not("docs/a.md", folder=False)


def _vault_links(data: bytes) -> None:
    """A link resolves to a file within the vault or to no file, despite `..` in its path."""
    lines = data.decode("utf-8", "replace").split("\n")
    names = {line.strip("/") for line in lines if line.strip("/")} | {"Note.md", "a/Note.md", "pic.png"}
    vault = VaultIndex(names)
    for source in ("a/Note.md", "Note.md"):
        for line in lines:
            found = vault.resolve(line, source)
            assert found is None or found in names
    anchor_exists(lines[0], [(1, "Plan"), (2, "Sub")], ["block-1"])


_SIGNED = "%PDF-1.4\n{\\rtf1\nPK\x03\x04\nII*\x00\nRIFF\n<html>\n\x00\nFrom: a@b\n{}\n"
_PICTURES = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x10\x00\x00\x00\x20\x08\x06",
    b"\xff\xd8\xff\xe1\x00\x3eExif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x69\x87\x04\x00\x01\x00\x00\x00\x1a\x00\x00\x00"
    b"\x00\x00\x00\x00\x01\x00\x03\x90\x02\x00\x14\x00\x00\x00\x2c\x00\x00\x002026:01:31 12:00:00\x00"
    b"\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03",
    b"RIFF\x1a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x00\x1f\x00\x00",
    b"GIF89a\x10\x00\x20\x00\x00\x00\x00",
    b"BM\x3a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x10\x00\x00\x00\xe0\xff\xff\xff",
)


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("a.md", "../up.md", "ä\x1b[2J.md"):
            archive.writestr(zipfile.ZipInfo(name), "words " * 20)
    return out.getvalue()


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("a.md", "../up.md", "n" * 200):
            member = tarfile.TarInfo(name)
            member.size = 5
            archive.addfile(member, io.BytesIO(b"words"))
    return out.getvalue()
