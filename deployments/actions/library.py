"""The library as a whole: its model of search, the proof of its history, and the database that has it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta

from catchment.audit import chain, signing
from catchment.errors import BadInput, CatchmentError
from catchment.ledger import OFF, Ledger
from catchment.search.meaning import choice, meaning_status
from catchment.sync import supply
from catchment.views.work.recognition import AUTOMATIC
from deployments.actions import sinks
from deployments.actions.desk import Desk
from deployments.server.running import kept_down, running

_NOT_ERASED = timedelta(days=90)


def choose_model(desk: Desk, setting: str, actor: str, reason: str = "") -> bool:
    """Choose the model of search by meaning, as `choice.checked` describes it, and request its embeddings.

    Return False if they cannot be requested because the deployment `embed` is paused. Raises BadInput, or MeaningOff if the
    model cannot be used; then the previous one stays.
    """
    choice.checked(setting)
    if setting != OFF:
        choice.load(setting)
    with desk.writing() as ledger:
        ledger.embeddings.setting = setting
        ledger.history.note("model chosen", actor, reason, fact=setting)
    meaning_status.record(desk.home, "")
    return setting == OFF or _start(desk, "embed")


def choose_recognition(desk: Desk, setting: str, actor: str, reason: str = "") -> bool:
    """Choose whether text on pictures is recognized: `auto`, `off`, or Tesseract's names of languages, such as `deu+eng`.

    Return False if no run can be requested because the deployment `recognize` is paused. Raises BadInput for a language that
    is not installed.
    """
    from catchment.content.pictures import tesseract

    missing = [] if setting in (AUTOMATIC, OFF) else sorted({*setting.split("+")} - tesseract.installed())
    if missing:
        raise BadInput(f"{missing[0]}: not a language that Tesseract has here; `tesseract --list-langs` lists them")
    with desk.writing() as ledger:
        ledger.recognition.setting = setting
        ledger.history.note("recognition chosen", actor, reason, fact=setting)
    return setting == OFF or _start(desk, "recognize")


def _start(desk: Desk, flow: str) -> bool:
    if (server := running(desk.home)) is None:
        return True
    from deployments.runs.runs import start_background

    return start_background(server, flow)


def erase_history(desk: Desk, before: datetime, actor: str, reason: str = "") -> int:
    """Erase the steps of earlier versions of items; their hashes stay. Return the number of rows; see `chain.erase`.

    Raises BadInput for a time less than 90 days ago, Refused or TryAgain.
    """
    if datetime.now(UTC) - before < _NOT_ERASED:
        raise BadInput(f"--older-than {before:%Y-%m-%d}: less than 90 days ago; name an earlier time")
    with desk.writing() as ledger:
        return chain.erase(desk.home, ledger, before, actor, reason)


def replace_key(desk: Desk, actor: str, reason: str = "") -> signing.PublicKey:
    """Replace the key that signs the history. The previous one announces it."""
    with desk.writing() as ledger:
        public = signing.rotate(desk.home)
        ledger.history.note("audit key replaced", actor, reason, fact=public.key)
    return public


def adopt(desk: Desk, actor: str, reason: str = "") -> Mapping[str, CatchmentError | None]:
    """Transfer the ledger from another home to this one, with its sinks. Return the sinks, with the problems of some.

    Raises Refused if hosts share it.
    """
    home = desk.home.make()
    # By its URL, because a home could not migrate an older ledger of another one.
    Ledger.open(home.database_url).close()
    with closing(Ledger.inspect(home)) as ledger:
        if not (ledger.hosts.is_owned() or ledger.hosts.is_shared):
            # Before the change: a kill after it would leave a history that this home did not sign.
            chain.take_up(home, ledger, "adopted")
        ledger.adopt(actor, reason)
        adopted = dict[str, CatchmentError | None].fromkeys(sink.name for sink in ledger.outbox.all())
    for name in adopted:
        try:
            sinks.adopt(desk, name, actor, reason or "with the ledger")
        except supply.PLACE_FAILURES as error:
            adopted[name] = error
    return adopted


def move(desk: Desk, url: str, actor: str, reason: str = "") -> int:
    """Copy the ledger into another database, which this home uses from now on. Return the number of rows of its history.

    Raises Refused while Catchment runs, and the exceptions of `Ledger.move`.
    """
    with kept_down(desk.home.make(), "move"):
        with desk.writing() as ledger:
            rows = ledger.move(url)
        desk.home.use_database(url)
        with desk.writing() as ledger:
            # Without the address, which audit bundles would contain.
            ledger.history.note("ledger moved", actor, reason)
    return rows
