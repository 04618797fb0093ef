"""A process that makes transfers in several threads and records when each started and finished."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from catchment.ledger import Ledger
from catchment.pacing import HostLimits, RateProfile
from catchment.pacing.metered import Metered
from catchment.runtime import process


def main(url: str, log: Path, threads: int, transfers: int, seconds: float) -> None:
    """Make transfers in each thread for `seconds`, with a host that allows one at a time and a host that allows two."""
    ledger = Ledger.open(url)
    paces = [Metered(ledger.pacing, _limits(at_once), "mail", process.identity()) for at_once in (1, 2)]
    with log.open("a", buffering=1, encoding="ascii") as file:

        def work() -> None:
            for _ in range(transfers):
                for at_once, pace in enumerate(paces, start=1):
                    with pace.transfer():
                        file.write(f"+ {time.monotonic_ns()} {at_once}\n")
                        time.sleep(seconds)
                        file.write(f"- {time.monotonic_ns()} {at_once}\n")

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    for pace in paces:
        pace.close()
    ledger.close()


def _limits(at_once: int) -> HostLimits:
    return HostLimits(f"{at_once}.example.org", profile=RateProfile.MAXIMUM, at_once=at_once)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
