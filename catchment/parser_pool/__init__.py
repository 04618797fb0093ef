"""Processes in which a function may crash, hang or run out of memory without harm to anything but its own task.

`pool` distributes tasks over processes, `process` controls one process, and `child` runs tasks inside it. The pool isolates
accidents. It does not stop malicious code: tasks run with the rights of the user.
"""

from catchment.parser_pool.child import Failed, describe, keeping, progress
from catchment.parser_pool.pool import STARTING_SECONDS, ParserPool

__all__ = ["STARTING_SECONDS", "Failed", "ParserPool", "describe", "keeping", "progress"]
