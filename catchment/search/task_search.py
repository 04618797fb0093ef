"""Search for tasks (`type:task`): each hit is a line with a checkbox, the earliest due date first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from catchment.ledger import TASK, Filter, FilterName, Folded, Ledger, Query, Task, Term
from catchment.records import record_of
from catchment.search.present import TASK_MARKS, marks, pattern, snippet
from catchment.search.results import Hit
from catchment.search.widened_query import WidenedQuery

_CLOSED = frozenset("xX-")
"""Status characters of tasks that are done or dropped. All others are open."""
_DUE = re.compile(r"(?:📅|\bdue::?)\s*(\d{4}-\d\d-\d\d)")
_LATER = "9999"


def wants_tasks(query: Query) -> bool:
    """Return whether a query searches for tasks instead of documents."""
    return any(map(_is_type, query.filters))


def find_tasks(ledger: Ledger, widened: WidenedQuery) -> list[Hit]:
    """Return the tasks that have the words of the query, in their text or the title of their document."""
    query = widened.query
    states = [condition for condition in query.filters if condition.name is FilterName.IS]
    filters = [condition for condition in query.filters if condition not in states and not _is_type(condition)]
    enough = any if widened.is_sentence else all
    groups = [_any_of(terms) for terms in query.wanted]
    unwanted = _any_of(query.unwanted)

    def is_wanted(task: Task) -> bool:
        text = Folded(f"{task.text}\n{task.shown.title}").text
        has_words = not groups or enough(re.search(group, text) for group in groups)
        is_excluded = bool(query.unwanted) and re.search(unwanted, text) is not None
        return (
            has_words
            and not is_excluded
            and all((_state(task) in condition.values) != condition.is_negated for condition in states)
        )

    tasks = [task for task in ledger.library.tasks(filters) if is_wanted(task)]
    tasks.sort(key=lambda task: (task.shown.moment is not None, task.shown.moment), reverse=True)
    if not query.newest_first:
        tasks.sort(key=_due)
    return [_hit(task, groups) for task in tasks]


def _is_type(condition: Filter) -> bool:
    return condition.name is FilterName.TYPE and condition.values == (TASK,) and not condition.is_negated


def _any_of(terms: Iterable[Term]) -> str:
    return "|".join(map(pattern, terms))


def _state(task: Task) -> str:
    return "closed" if task.status in _CLOSED else "open"


def _due(task: Task) -> str:
    due = _DUE.search(task.text)
    return due[1] if due else _LATER


def _hit(task: Task, groups: Sequence[str]) -> Hit:
    shown, marked = task.shown, marks(task.text, groups, ())
    mark = TASK_MARKS.get(task.status, task.status)
    return record_of(
        Hit,
        shown,
        **snippet(task.text, marked, marked[0] if marked else None, lead=f"{mark} "),
        score=1.0,
        places=tuple((copy.source, copy.item) for copy in task.copies),
        conversation=None,
        alike=1,
        state=_state(task),
    )
