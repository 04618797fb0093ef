"""Trials: two acts in two processes on one home, interleaved at a step, and the checks afterwards.

After each trial both acts are repeated, as a person or the system would, until they are done or finally refused. Then an
ordinary sync and a delivery run, and every promise must hold.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.faults.crashes import listen
from tests.faults.rehearsal import rehearse
from tests.pairs.acts import Act
from tests.pairs.checks import Checks, still_sound
from tests.pairs.matrix import Pair
from tests.pairs.office import Office, State, reset
from tests.pairs.players import Answer, Fate, Player, is_step

_WAITS_SECONDS = 1.0
"""How long the second act is awaited while the first is held: longer than it waits for a lock."""
_SOON_SECONDS = 0.15
"""How long in the modes in which it waits for a lock when the first continues."""
_MOST_REPEATS = 4


class Mode(StrEnum):
    """The events while the first act is held at a step.

    BESIDE: the second act runs to its end, then the first continues. SOON: the first continues while the second waits for its
    locks. WOVEN: the second is held at a step until the first has ended. KILLED and KILLED_SOON: as BESIDE and SOON, but the
    first is killed. BETWEEN: the first is killed while the second is held at a step.
    """

    BESIDE = "beside"
    SOON = "soon"
    WOVEN = "woven"
    KILLED = "killed"
    KILLED_SOON = "killed-soon"
    BETWEEN = "between"


_KILLING = (Mode.BETWEEN, Mode.KILLED, Mode.KILLED_SOON)
_SPARING = (Mode.BESIDE, Mode.WOVEN, Mode.SOON)
_HOLDING_BOTH = (Mode.BETWEEN, Mode.WOVEN)


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial. `at`: the step of the first act; `then`: that of the second in `BETWEEN` and `WOVEN`."""

    mode: Mode
    at: int
    then: int = 0
    second_first: bool = False
    """Whether the second act is completed before the first."""

    def __str__(self) -> str:
        return f"{self.mode}:{self.at}:{self.then}:{int(self.second_first)}"

    @classmethod
    def parse(cls, text: str) -> Trial:
        """Return the trial that `str` wrote."""
        mode, at, then, second_first = text.split(":")
        return cls(Mode(mode), int(at), int(then), bool(int(second_first)))

    @property
    def kills(self) -> bool:
        """Whether the first act is killed."""
        return self.mode in _KILLING


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a trial: both answers, and the broken promise, or ""."""

    trial: Trial
    answers: tuple[Answer, Answer]
    step: str
    problem: str = ""

    @property
    def killed(self) -> bool:
        """Whether the first act was killed."""
        return self.answers[0].fate is Fate.KILLED


class Arena:
    """A place with an office, in which one trial after another runs."""

    def __init__(self, place: Path) -> None:
        rehearse()
        self._place = place / "office"
        self._note = place / "note"
        self._steps: dict[tuple[str, State], tuple[str, ...]] = {}
        self._in_process(lambda: Office(self._place).build())

    def steps(self, act: Act, state: State) -> tuple[str, ...]:
        """Return the steps of an act from a state, in order."""
        if (act.name, state) not in self._steps:
            file = self._place / "steps"

            def play() -> None:
                reset(self._place, state)
                office = Office(self._place)
                heard: list[str] = []
                listen(lambda moment: heard.append(moment) if is_step(moment) else None)
                act.play(office)
                file.write_text(json.dumps(heard), encoding="utf-8")

            self._in_process(play)
            self._steps[act.name, state] = tuple(json.loads(file.read_text(encoding="utf-8")))
        return self._steps[act.name, state]

    def chosen(self, pair: Pair, kills: int, chosen: random.Random) -> list[Trial]:
        """Return trials with so many kills, spread over the steps of the first act, and half as many without."""
        firsts, seconds = (len(self.steps(act, pair.state)) for act in pair.acts)
        trials = []
        for number, modes in ((kills, _KILLING), (kills // 2, _SPARING)):
            for n in range(number):
                at, mode = 1 + int((n + chosen.random()) * firsts / number), modes[n % len(modes)]
                then = chosen.randint(1, seconds) if mode in _HOLDING_BOTH else 0
                trials.append(Trial(mode, at, then, chosen.random() < 0.5))
        return trials

    def run(self, pair: Pair, trial: Trial) -> Result:
        """Run a trial and its checks."""
        first, second = pair.acts
        steps = self.steps(first, pair.state)
        reset(self._place, pair.state)
        step = steps[min(trial.at, len(steps)) - 1]
        with ExitStack() as stack:
            players = self._played(first, second, trial, stack)
            answers = players[0].answer(), players[1].answer()
            problem = (
                "".join(_defect(act, answer) for act, answer in zip(pair.acts, answers, strict=True))
                or self._wrong(lambda: still_sound(Office(self._place)))
                or self._completed(pair, players, stack, second_first=trial.second_first)
            )
        problem = problem or self._wrong(lambda: Checks(Office(self._place), (pair.first, pair.second)).all())
        return Result(trial, answers, step, problem)

    def _wrong(self, check: Callable[[], None]) -> str:
        """Return the problem that a check finds, or ""."""
        with closing(Player(check, self._note)) as player:
            answer = player.answer()
        return "" if answer.fate is Fate.DONE else answer.text or answer.error or str(answer.fate)

    def _played(self, first: Act, second: Act, trial: Trial, stack: ExitStack) -> tuple[Player, Player]:
        """Play both acts until they have answered."""
        one = stack.enter_context(closing(self._player(first, "first", trial.at)))
        if not one.is_held():
            # It has fewer steps than when it was recorded.
            one.answer()
            return one, stack.enter_context(closing(self._player(second, "second")))
        held = trial.then if trial.mode in _HOLDING_BOTH else None
        other = stack.enter_context(closing(self._player(second, "second", held)))
        is_held = held is not None and other.is_held(_WAITS_SECONDS)
        if held is None:
            soon = trial.mode in (Mode.SOON, Mode.KILLED_SOON)
            other.answers_within(_SOON_SECONDS if soon else _WAITS_SECONDS)
        if trial.kills:
            one.kill()
        else:
            one.go_on()
        if is_held:
            one.answers_within(_WAITS_SECONDS)
        if held is not None:
            other.go_on()
        return one, other

    def _completed(self, pair: Pair, players: Sequence[Player], stack: ExitStack, *, second_first: bool) -> str:
        """Repeat acts until they are done or finally refused. Return the problem, or "".

        A refused act is repeated by its process, a killed one by a new process.
        """
        pending = list(zip(pair.acts, players, strict=True))
        if second_first:
            pending.reverse()
        for act, player in pending:
            actor = player
            if actor.answer().fate is Fate.KILLED:
                actor = stack.enter_context(closing(self._player(act, "again")))
            repeats = 0
            while not _is_over(act, answer := actor.answer(), pair):
                if problem := _defect(act, answer):
                    return problem
                if (repeats := repeats + 1) > _MOST_REPEATS:
                    return f"{act.name}: refused after {_MOST_REPEATS} repetitions: {answer.error}: {answer.text}"
                actor.again()
        return ""

    def _player(self, act: Act, name: str, hold: int | None = None) -> Player:
        return Player(lambda: act.perform(Office(self._place)), self._place.parent / name, hold)

    def _in_process(self, work: Callable[[], None]) -> None:
        with closing(Player(work, self._note)) as player:
            answer = player.answer()
        assert answer.fate is Fate.DONE, answer.text or answer


def _defect(act: Act, answer: Answer) -> str:
    return f"{act.name}: {answer.error}\n{answer.text}" if answer.fate is Fate.BROKEN else ""


def _is_over(act: Act, answer: Answer, pair: Pair) -> bool:
    """Return whether an act is done, or refused for good."""
    if answer.fate is not Fate.REFUSED:
        return answer.fate is Fate.DONE
    if answer.error not in {error.__name__ for error in act.final}:
        return False
    # Only after a restore or a purge may an undo be refused for good.
    return act.name != "undo" or pair.has("restore") or pair.has("revoke")
