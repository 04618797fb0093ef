"""`python -m benchmarks.command PROGRAM [ARGUMENTS]`: one run of a program. Prints JSON: `seconds` is its wall time."""

from __future__ import annotations

import json
import subprocess
import sys
import time

if __name__ == "__main__":
    start = time.perf_counter()
    subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(json.dumps({"seconds": time.perf_counter() - start}))
