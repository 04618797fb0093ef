"""The kind of source `sample`: a file with a text on each line, such as `weir: The weir is high.`"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from catchment.contracts import Manifest
from catchment.errors import BadInput, SourceInvalid, SourceUnavailable
from catchment.runtime.home import expanded
from catchment.settings import FullPath, SourceSettings
from connectors.listing import Entry, Listing


class SampleSourceSettings(SourceSettings):
    """Settings of a `sample` source."""

    identity = ("file",)
    file: FullPath = Field(title="File", description="Full path of a file with a line `NAME: TEXT` for each document")

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for LOCATION, as in `catchment add sample LOCATION`."""
        file = expanded(Path(location)).absolute()
        if not file.is_file():
            raise BadInput(f"{file.name!r}: no such file; correct the path")
        return {"file": file}


class SampleSource(Listing):
    """The connector for a file with a text on each line."""

    kind = "sample"
    contract = 1
    settings = SampleSourceSettings
    manifest = Manifest(
        title="Sample",
        content="a file of texts",
        place="File: path of a file with a line `NAME: TEXT` for each document",
        example="~/sample.txt",
        level="silver",
        exempt={
            "moves": "a text is known by its name alone",
            "parsers": "splits lines, and parses nothing",
        },
    )

    def entries(self) -> Iterator[Entry]:
        """Yield each text."""
        file = self.configured.file
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError:
            raise SourceUnavailable(f"{file.name!r}: cannot be read; mount its disk, or move it back") from None
        except ValueError:
            raise SourceInvalid(f"{file.name!r}: not UTF-8; save it as UTF-8") from None
        for name, _, text in (line.partition(": ") for line in lines):
            if text:
                yield Entry(f"{name}.txt", text.encode(), title=name)
