"""The command `catchment`, also as `python -m catchment`."""

from __future__ import annotations

import os
import sys

from catchment.runtime.installation import clash


def main() -> int:
    """Run the command line, or report that another program's package is in the place of one of ours."""
    if problem := clash():
        sys.stderr.write(f"catchment: {problem}\n")
        return 1
    from console.main import main as run

    # The processes that this one starts would import modules of the current folder before ours.
    os.environ["PYTHONSAFEPATH"] = "1"
    return run()


if __name__ == "__main__":
    sys.exit(main())
