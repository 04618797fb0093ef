"""The programs with assistants on this machine, and the entry in their configuration that starts `catchment mcp`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catchment.errors import BadInput
from catchment.runtime import atomic_files
from catchment.runtime.home import Home, base_folder

NAME = "catchment"


@dataclass(frozen=True, slots=True)
class AssistantProgram:
    """A program with assistants. `file` is its configuration, `key` the object in it that lists servers by name."""

    name: str
    file: Path
    key: str = "mcpServers"

    def add(self, entry: dict[str, Any]) -> bool:
        """Write the entry, and keep all others. Returns whether it is new. Raises BadInput, OSError."""
        file = self.file.resolve()
        text, mode = "{}", 0o600
        if file.exists():
            text, mode = file.read_text(encoding="utf-8") or text, file.stat().st_mode & 0o777
        try:
            settings: dict[str, Any] = json.loads(text)
            servers = settings.setdefault(self.key, {})
            if servers.get(NAME) == entry:
                return False
            servers[NAME] = entry
        except (ValueError, AttributeError):
            problem = f"{self.name}: {self.file} is not plain JSON with an object {self.key}"
            raise BadInput(f"{problem}; add the entry of `catchment mcp install --print` yourself") from None
        atomic_files.write(file, (json.dumps(settings, ensure_ascii=False, indent=2) + "\n").encode())
        file.chmod(mode)
        return True


def found() -> list[AssistantProgram]:
    """Return the programs that this user has: those with a folder for their settings."""
    home = Path.home()
    settings = (
        home / "Library/Application Support" if sys.platform == "darwin" else base_folder("XDG_CONFIG_HOME", ".config")
    )
    known = {
        settings / "Claude": AssistantProgram("Claude Desktop", settings / "Claude" / "claude_desktop_config.json"),
        home / ".claude": AssistantProgram("Claude Code", home / ".claude.json"),
        home / ".cursor": AssistantProgram("Cursor", home / ".cursor" / "mcp.json"),
        settings / "Code/User": AssistantProgram(
            "Visual Studio Code", settings / "Code" / "User" / "mcp.json", "servers"
        ),
        home / ".codeium/windsurf": AssistantProgram("Windsurf", home / ".codeium" / "windsurf" / "mcp_config.json"),
        home / ".gemini": AssistantProgram("Gemini CLI", home / ".gemini" / "settings.json"),
    }
    return [program for folder, program in known.items() if folder.is_dir()]


def entry(home: Home) -> dict[str, Any]:
    """Return the entry that starts the server with this Python for this home."""
    command = {"command": sys.executable, "args": ["-P", "-m", "console", "mcp"]}
    return {"type": "stdio", **command, "env": {"CATCHMENT_HOME": os.fspath(home.path.absolute())}}
