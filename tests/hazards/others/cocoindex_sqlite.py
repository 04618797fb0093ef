"""CocoIndex to SQLite: a component for each file, memoized; what is declared no more is deleted by the library.

https://cocoindex.io/docs/programming_guide/target_state and https://cocoindex.io/docs/connectors/sqlite. Nothing is named: what
could not be read is told in its statistics only. Its threads begin when it is imported and would not live on in a fork, so each
fork imports it: half a second of its times.

Needs: cocoindex
"""

from pathlib import Path

from _said import Held, answer


def bring_in(state: Path, folder: Path) -> Held:
    """Bring the folder in."""
    from _cocoindex import update

    return update(state, folder)


if __name__ == "__main__":
    answer(bring_in)
