"""Search for tasks (`type:task`): each hit is a line with a checkbox, the earliest due date first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from catchment.ledger import TASK, Filter, FilterName, Folded, Ledger, Query, Task, Term
from catchment.search.asked import Asked
from catchment.search.present import marks, pattern, snippet
from catchment.search.results import Hit

_CLOSED = frozenset("xX-")
"""Status characters of tasks that are done or dropped. All others are open."""
_DUE = re.compile(r"(?:📅|\bdue::?)\s*(\d{4}-\d\d-\d\d)")
_LATER = "9999"


def wants_tasks(query: Query) -> bool:
    """Return whether a query asks for tasks instead of documents."""
    return any(map(_is_type, query.filters))


def find_tasks(ledger: Ledger, asked: Asked) -> list[Hit]:
    """Return the tasks that have the words of the query, in their text or the title of their document."""
    query = asked.query
    states = [one for one in query.filters if one.name is FilterName.IS]
    filters = [one for one in query.filters if one not in states and not _is_type(one)]
    enough = any if asked.is_sentence else all
    groups = [_any_of(terms) for terms in query.wanted]
    unwanted = _any_of(query.unwanted)

    def is_wanted(task: Task) -> bool:
        text = Folded(f"{task.text}\n{task.shown.title}").text
        has_words = not groups or enough(re.search(group, text) for group in groups)
        is_excluded = bool(query.unwanted) and re.search(unwanted, text) is not None
        return has_words and not is_excluded and all((_state(task) in one.values) != one.is_negated for one in states)

    found = [task for task in ledger.library.tasks(filters) if is_wanted(task)]
    found.sort(key=lambda task: (task.shown.moment is not None, task.shown.moment), reverse=True)
    if not query.newest_first:
        found.sort(key=_due)
    return [_hit(task, groups) for task in found]


def _is_type(one: Filter) -> bool:
    return one.name is FilterName.TYPE and one.values == (TASK,) and not one.is_negated


def _any_of(terms: Iterable[Term]) -> str:
    return "|".join(map(pattern, terms))


def _state(task: Task) -> str:
    return "closed" if task.status in _CLOSED else "open"


def _due(task: Task) -> str:
    due = _DUE.search(task.text)
    return due[1] if due else _LATER


def _hit(task: Task, groups: Sequence[str]) -> Hit:
    shown, state = task.shown, _state(task)
    marked = marks(task.text, groups, ())
    line = snippet(task.text, marked, marked[0] if marked else None)
    return Hit(
        document=shown.document,
        title=shown.title,
        source=shown.source,
        item=shown.item,
        snippet=f"{'☑' if state == 'closed' else '☐'} {line}",
        score=1.0,
        places=tuple((copy.source, copy.item) for copy in task.copies),
        thread=None,
        alike=1,
        media_type=shown.media_type,
        author=shown.author,
        moment=shown.moment,
        state=state,
    )
