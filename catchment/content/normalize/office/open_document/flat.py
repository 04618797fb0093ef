"""Make packages of flat OpenDocument files (ODF 1.3 part 3, 2.2), so that they are read like packages."""

from __future__ import annotations

import io
import re
import zipfile

_BINARY = re.compile(rb"<office:binary-data>[^<]*</office:binary-data>")
_BODY = re.compile(rb"<office:body\b.*</office:body\s*>", re.DOTALL)
_BESIDE = re.compile(rb"<office:(meta|master-styles)\b.*?</office:\1\s*>", re.DOTALL)
_MANIFEST = (
    '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
    '<manifest:file-entry manifest:full-path="/" manifest:media-type="{0}"/></manifest:manifest>'
)


def packaged(data: bytes, media_type: str) -> bytes:
    """Return a package of the parts of a flat file, without its pictures and embedded files."""
    data = _BINARY.sub(b"", data)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        package.writestr(zipfile.ZipInfo("mimetype"), media_type)
        package.writestr(zipfile.ZipInfo("META-INF/manifest.xml"), _MANIFEST.format(media_type))
        package.writestr(zipfile.ZipInfo("content.xml"), _BESIDE.sub(b"", data))
        for name in ("styles.xml", "meta.xml"):
            package.writestr(zipfile.ZipInfo(name), _BODY.sub(b"", data))
    return out.getvalue()
