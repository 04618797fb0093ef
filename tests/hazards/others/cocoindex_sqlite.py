"""CocoIndex to SQLite: one memoized component per file; the library deletes targets that are no longer declared.

https://cocoindex.io/docs/programming_guide/target_state and https://cocoindex.io/docs/connectors/sqlite. Unread files
are counted in its statistics but not named. Its threads start on import and would not survive a fork, so each fork
imports it, which takes half a second of its times.

Needs: cocoindex
"""

from pathlib import Path

from _protocol import Held, answer


def bring_in(state: Path, folder: Path) -> Held:
    """Ingest the folder."""
    from _cocoindex import update

    return update(state, folder)


if __name__ == "__main__":
    answer(bring_in)
