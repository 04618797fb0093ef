"""A process that sends requests to one local server from several threads, as often as the server permits."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.request import urlopen

from catchment.ledger import Ledger
from catchment.pacing import HostLimits
from catchment.pacing.metered import Metered
from catchment.runtime import process


def main(url: str, port: int, threads: int, requests: int, every: float) -> None:
    """Send `requests` requests from each thread."""
    limits = HostLimits(f"127.0.0.1:{port}", every=every)
    with (
        closing(Ledger.open(url)) as ledger,
        closing(Metered(ledger.pacing, None, "blog", process.identity())) as pace,
        ThreadPoolExecutor(threads) as pool,
    ):

        def ask(_: int) -> None:
            with pace.transfer(at=limits), urlopen(f"http://127.0.0.1:{port}/"):
                pass

        list(pool.map(ask, range(threads * requests)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
