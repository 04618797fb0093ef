"""The kind `sample` keeps the contract: with this small source, Catchment's suite checks the rules up to its level."""

from pathlib import Path
from typing import Any

from connectors.contract.suite import ConnectorContract


class TestSample(ConnectorContract):
    kind = "sample"

    def fill(self, place: Path) -> None:
        """Make a source with four items."""
        (place / "texts").write_text("weir: It is high.\nsluice: It is shut.\nlock: It is full.\nferry: It is late.\n")

    def settings(self, place: Path) -> dict[str, Any]:
        return {"file": place / "texts"}

    def change(self, place: Path) -> None:
        """Add one item, edit one, and delete one."""
        (place / "texts").write_text("weir: It is low.\nsluice: It is shut.\nlock: It is full.\nbridge: It is up.\n")

    def lose(self, place: Path) -> None:
        """Make the source unreachable."""
        (place / "texts").unlink()
