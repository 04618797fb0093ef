from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from catchment.content.cache import Cache
from catchment.content.disposable_file import file_size
from catchment.errors import HomeUnavailable


def test_stored_entries_are_visible_to_other_processes(tmp_path: Path) -> None:
    first = Cache(tmp_path / "cache.db")
    first.put({"a": b"1", "b": b"2"})
    second = Cache(tmp_path / "cache.db")
    assert second.get(["a", "b", "c"]) == {"a": b"1", "b": b"2"}
    second.close()
    first.close()


def test_many_threads_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    def opened(number: int, ready: threading.Barrier) -> None:
        ready.wait()
        cache = Cache(tmp_path / f"{number}" / "cache.db")
        cache.put({"a": b"1"})
        cache.close()

    with ThreadPoolExecutor(6) as pool:
        for number in range(50):
            (tmp_path / f"{number}").mkdir()
            ready = threading.Barrier(6)
            for opening in [pool.submit(opened, number, ready) for _ in range(6)]:
                opening.result()


def test_lookup_exceeds_the_parameter_limit_of_one_query(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.db")
    entries = {f"key {n}": b"12345678" for n in range(1_200)}
    cache.put(entries)
    assert cache.get(entries) == entries
    cache.close()


def test_dropped_entries_are_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.db")
    cache.put({"a": b"1", "b": b"2"})
    cache.drop({"a"})
    assert cache.get(["a", "b"]) == {"b": b"2"}
    again = Cache(tmp_path / "cache.db")
    assert again.get(["a", "b"]) == {"b": b"2"}
    again.close()
    cache.close()


def test_closing_returns_the_space_of_dropped_entries(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    entries = {f"key {n}": b"12345678" * 100 for n in range(1_000)}
    with closing(Cache(path)) as other:
        cache = Cache(path)
        cache.put(entries | {"a": b"1"})
        cache.drop(entries.keys())
        assert file_size(path) > 500_000
        cache.close()
        cache.close()
        assert file_size(path) < 50_000
        assert other.get(["a"]) == {"a": b"1"}


def test_closing_is_not_prevented_by_another_process_that_writes(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.db")
    entries = {f"key {n}": b"12345678" * 100 for n in range(1_000)}
    cache.put(entries)
    cache.drop(entries.keys())
    cache._with_database(lambda database: database.execute("PRAGMA busy_timeout = 100"))
    with closing(sqlite3.connect(tmp_path / "cache.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        cache.close()


def test_damaged_file_is_discarded(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    path.write_bytes(b"this is not a database" * 500)
    cache = Cache(path)
    cache.put({"a": b"1"})
    assert cache.get(["a"]) == {"a": b"1"}
    cache.close()


def test_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.db")
    assert stat.S_IMODE((tmp_path / "cache.db").stat().st_mode) == 0o600
    cache.close()


def test_file_damaged_during_use_is_discarded_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    first = Cache(path)
    first.put({f"key {n}": b"12345678" * 100 for n in range(200)})
    first.close()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    cache = Cache(path)
    assert cache.get([f"key {n}" for n in range(200)]) == {}
    cache.put({"a": b"1"})
    assert (cache.get(["a"]), cache.thrown_away) == ({"a": b"1"}, 1)
    cache.close()


@pytest.mark.parametrize(
    "alteration",
    [
        "UPDATE entries SET value = CAST(replace(CAST(value AS TEXT), 'pump', 'pomp') AS BLOB)",
        "UPDATE entries SET value = substr(value, 1, 20)",
        "UPDATE entries SET value = x''",
        "UPDATE entries SET value = 7",
        "UPDATE entries SET value = CAST(x'ff00' AS TEXT)",
        "UPDATE entries SET value = (SELECT value FROM entries WHERE key = 'b')",
    ],
)
def test_altered_entries_are_treated_as_absent(tmp_path: Path, alteration: str) -> None:
    cache = Cache(tmp_path / "cache.db")
    cache.put({"a": b"the pump drips", "b": b"another"})
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute(f"{alteration} WHERE key = 'a'")
    database.close()
    assert cache.get(["a", "b"]) == {"b": b"another"}
    cache.put({"a": b"the pump drips"})
    assert cache.get(["a"]) == {"a": b"the pump drips"}
    cache.close()


def test_entries_without_a_digest_are_treated_as_absent(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
        database.execute("INSERT INTO entries VALUES ('a', x'00112233445566778899aabbccddeeff0011')")
    database.close()
    cache = Cache(tmp_path / "cache.db")
    assert cache.get(["a"]) == {}
    cache.close()


def test_keys_with_altered_bytes_can_be_listed_and_dropped(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.db")
    cache.put({"a": b"1", "b": b"2"})
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("UPDATE entries SET key = CAST(x'61ff' AS TEXT) WHERE key = 'a'")
    database.close()
    found = cache.keys()
    assert len(found) == 2
    cache.drop(found)
    assert cache.keys() == []
    cache.close()


def test_unopenable_file_error_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "cache.db").mkdir()
    with pytest.raises(HomeUnavailable, match=r"check the disk and the owner of cache\.db"):
        Cache(tmp_path / "cache.db")


def test_closing_during_a_concurrent_write_does_not_crash(tmp_path: Path) -> None:
    script = f"""
import threading, time
from pathlib import Path
from catchment.content.cache import Cache
from catchment.content.disposable_file import file_size
from catchment.errors import HomeUnavailable

def write(cache):
    try:
        while True:
            cache.put({{str(n): bytes(200) for n in range(300)}})
    except HomeUnavailable:
        pass

for number in range(100):
    cache = Cache(Path({str(tmp_path / "cache.db")!r}))
    writing = threading.Thread(target=write, args=(cache,))
    writing.start()
    time.sleep(0.002 * (number % 10))
    cache.close()
    writing.join()
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
