"""`python -m tests.assistant`: record the tools anew, after they were changed on purpose; read the diff with git."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from assistant.mcp_server import TOOLS

FROZEN: Final = Path(__file__).parent / "tools.json"


def described() -> list[dict[str, Any]]:
    """Return the tools as a client receives them."""
    return [tool.described().model_dump(mode="json", by_alias=True, exclude_none=True) for tool in TOOLS]


def main() -> int:
    FROZEN.write_text(json.dumps(described(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
