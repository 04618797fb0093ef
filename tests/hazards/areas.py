"""The areas of hazards other than folders."""

from __future__ import annotations

from typing import Any

from tests.hazards import commands, containers, disks, mail, processes, programs, recognition, repositories, websites
from tests.hazards.model import Area

AREAS: tuple[Area[Any], ...] = (
    mail.AREA,
    repositories.FILES,
    repositories.DISCUSSIONS,
    websites.AREA,
    processes.AREA,
    disks.AREA,
    recognition.AREA,
    containers.AREA,
    programs.AREA,
    commands.AREA,
)
