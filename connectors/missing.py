"""The connector in place of one that cannot be used, so that other sources go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar, NoReturn, cast

from pydantic import ConfigDict

from catchment.contracts import Connector, Manifest
from catchment.errors import BadInput, SourceUnavailable
from catchment.settings import Policy, SourceSettings


class MissingSettings(SourceSettings):
    """Settings of a source whose connector is missing: all that are written."""

    model_config = ConfigDict(extra="allow")
    identity: ClassVar[tuple[str, ...]] = ()
    problem: ClassVar[str]

    @classmethod
    def located(cls, location: str) -> NoReturn:  # noqa: ARG003 - of any kind of place
        """Raise BadInput."""
        raise BadInput(cls.problem)


class Missing:
    """A connector whose source cannot be read."""

    policy: ClassVar[Policy] = Policy()
    fetch_in_parser: ClassVar[bool] = False

    def __init__(self, settings: MissingSettings | SimpleNamespace) -> None:
        self._problem = settings.problem

    def __reduce__(self) -> tuple[type[Missing], tuple[SimpleNamespace]]:
        # Its class is made for its kind, so that another process cannot import it.
        return Missing, (SimpleNamespace(problem=self._problem),)

    def probe(self, *_: object, **__: object) -> NoReturn:
        """Raise SourceUnavailable with the problem and the remedy."""
        raise SourceUnavailable(self._problem)

    changes = fetch = probe


def missing(kind: str, problem: str) -> type[Connector]:
    """Return the class for a kind, with the problem and its remedy."""
    settings = type("MissingSettings", (MissingSettings,), {"problem": problem, "__module__": __name__})
    members = {"kind": kind, "settings": settings, "manifest": Manifest(kind, kind), "__module__": __name__}
    return cast("type[Connector]", type("Missing", (Missing,), members))
