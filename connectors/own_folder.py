"""The folder of a connector that keeps files of its source."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from catchment.contracts import Keeping


def own_folder(connector: Keeping) -> Path:
    """Return the folder of a connector; a temporary one, deleted with the connector, if the engine has not set it."""
    if connector.folder is None:
        connector.folder = Path(tempfile.mkdtemp(prefix="catchment-"))
        weakref.finalize(connector, shutil.rmtree, connector.folder, ignore_errors=True)
    return connector.folder
