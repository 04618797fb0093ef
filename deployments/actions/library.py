"""The library as a whole: choose the model of search by meaning."""

from __future__ import annotations

from catchment.ledger import OFF
from catchment.search.meaning import choice, meaning_status
from deployments.actions.desk import Desk
from deployments.server.running import running


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
        ledger.history.note("model chosen", actor, f"{setting}; {reason}" if reason else setting)
    meaning_status.record(desk.home, "")
    if setting == OFF or (server := running(desk.home)) is None:
        return True
    from deployments.runs.runs import start_embedding

    return start_embedding(server)
