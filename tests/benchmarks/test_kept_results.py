"""Stored benchmark results and their comparison with new ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.kept import against, differences, hardware_class, keep, last
from benchmarks.measure import Result

_MACHINE = {"processor": "Intel(R) Xeon(R) Processor", "cores": 2, "python": "3.11.7", "memory_gb": 23}
_TITLE = "First ingest of 10 notes"


def _result(fastest: float, work: float, slowest: float, name: str = "alone") -> Result:
    return Result(name, work, fastest, slowest, work, work, 100.0, 3, {})


def _measured(folder: Path, work: float, day: int) -> Path:
    comparisons = [{"comparison": _TITLE, "results": [_result(work, work, work).as_json()]}]
    file = folder / "bench.json"
    file.write_text(json.dumps({"hardware": _MACHINE, "comparisons": comparisons, "lines": [1, 2]}))
    os.utime(file, (day * 86_400, day * 86_400))
    return file


def test_machine_class_is_processor_cores_and_python() -> None:
    assert hardware_class(_MACHINE) == "intel-r-xeon-r-processor-2-cores-python-3.11"
    assert hardware_class(_MACHINE | {"python": "3.11.9"}) == hardware_class(_MACHINE)
    assert hardware_class(_MACHINE | {"cores": 4}) != hardware_class(_MACHINE)


def test_last_result_of_the_machine_class_is_used(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for work, day in ((2.0, 20_000), (4.0, 20_001), (3.0, 19_999)):
        keep(_measured(tmp_path, work, day), results)

    assert last(_MACHINE, results)[_TITLE, "alone"]["work"] == 4.0
    assert last(_MACHINE | {"cores": 64}, results) == {}
    assert "lines" not in json.loads(next(results.iterdir()).read_text())


def test_difference_within_both_ranges_is_not_significant() -> None:
    kept = _result(1.8, 2.0, 2.4).as_json()

    assert against(_result(2.3, 2.6, 2.8), kept) == "1.30~"
    assert against(_result(2.5, 2.6, 2.8), kept) == "1.30 "
    assert against(_result(0.9, 1.0, 1.1), kept) == "0.50 "


def test_unknown_benchmark_is_new_and_no_history_prints_no_comparison() -> None:
    result = _result(1.0, 1.0, 1.0)

    assert differences(_TITLE, [result], {("another", "alone"): result.as_json()}) == ["new"]
    assert differences(_TITLE, [result], {}) == []
