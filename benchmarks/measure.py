"""Measures commands as child processes: wall time, CPU time and memory of the whole process tree. Reports medians."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_SAMPLE_SECONDS = 0.1
LOOK = "BENCHMARK_LOOKS_AT_MEMORY"
"""Set for a command that measures the memory of processes that it did not start."""


@dataclass(frozen=True)
class Case:
    """A command that prints JSON as its last line. Its `seconds` are the work without the start of the program.

    `prepare` sets up each run, unmeasured.
    """

    name: str
    command: Sequence[str]
    prepare: Callable[[], object] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One run. Times in seconds; memory as the tree's peak PSS in MB (shared pages counted in parts)."""

    wall: float
    cpu: float
    peak_mb: float
    said: dict[str, Any]

    @property
    def work(self) -> float:
        return float(self.said.get("seconds", self.wall))


@dataclass(frozen=True)
class Result:
    """Medians of the runs of a case, the fastest and the slowest work, and the output of the last run."""

    name: str
    work: float
    fastest: float
    slowest: float
    wall: float
    cpu: float
    peak_mb: float
    rounds: int
    said: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def in_turn(cases: Sequence[Case], rounds: int, *, rest: float = 0.5) -> list[Result]:
    """Run the cases in turn for `rounds` rounds, with `rest` seconds between runs, after one warm-up round.

    Memory is measured in the warm-up round only, because sampling takes up to a tenth of a core.
    """
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    memory: dict[str, Sample] = {}
    for number in range(rounds + 1):
        for case in cases:
            case.prepare()
            time.sleep(rest)
            if number:
                samples[case.name].append(once(case))
            else:
                memory[case.name] = once(case, look_at_memory=True)
    return [_summarize(name, taken, memory[name]) for name, taken in samples.items()]


def once(case: Case, *, look_at_memory: bool = False) -> Sample:
    """Run a case. Raises SystemExit with its output if it fails."""
    environment = os.environ | case.environment | ({LOOK: "1"} if look_at_memory else {})
    start = time.perf_counter()
    with subprocess.Popen(case.command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            with Peak(process.pid, look=look_at_memory) as peak:
                output = process.stdout.read() if process.stdout else ""
                _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            # Otherwise the end of the block would wait for the case, which may take minutes.
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{case.name} failed with status {process.returncode}: {output[-2_000:]}")
    said = json.loads(output.strip().rpartition("\n")[2])
    return Sample(wall, usage.ru_utime + usage.ru_stime, peak.mb, said)


def hardware() -> dict[str, Any]:
    """The hardware and the versions of the software."""
    model = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "")
    memory = next((int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo") if "MemTotal" in line), 0)
    return {
        "processor": model or platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _summarize(name: str, samples: Sequence[Sample], memory: Sample) -> Result:
    work = [sample.work for sample in samples]
    return Result(
        name,
        statistics.median(work),
        min(work),
        max(work),
        statistics.median(sample.wall for sample in samples),
        statistics.median(sample.cpu for sample in samples),
        memory.peak_mb,
        len(samples),
        samples[-1].said | {key: memory.said[key] for key in memory.said if key.endswith("_mb")},
    )


class Peak(threading.Thread):
    """Peak memory of a process tree, above its memory at the start; 0 if `look` is false."""

    def __init__(self, pid: int, *, look: bool, since_now: bool = False) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._look = look
        self._before = tree_mb(pid) if look and since_now else 0.0
        self._done = threading.Event()
        self.mb = 0.0

    def run(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self.mb = max(self.mb, tree_mb(self._pid) - self._before)

    def __enter__(self) -> Peak:
        if self._look:
            self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._look:
            self._done.set()
            self.join()


def tree_mb(root: int) -> float:
    """PSS in MB of a process and all its descendants (shared pages counted in parts)."""
    return sum(_pss(pid) for pid in _tree(root)) / 1_024


def tree_cpu(root: int) -> float:
    """CPU seconds of a process and all its descendants, including exited ones."""
    ticks = 0
    for pid in _tree(root):
        # The program name may contain spaces and brackets; numbers follow the last bracket.
        fields = "".join(_lines(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _tree(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for line in _lines(children) for child in line.split()]
    return found


def _pss(pid: int) -> int:
    return next((int(line.split()[1]) for line in _lines(f"/proc/{pid}/smaps_rollup") if line.startswith("Pss:")), 0)


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:  # the process has exited, or this system has no such file
        return []
