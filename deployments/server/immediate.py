"""How the Prefect server begins its transactions on SQLite.

It begins them DEFERRED: a read that turns into a write while another connection wrote fails at once, whatever the busy
timeout, the API answers 503, and clients back off for seconds. Begun IMMEDIATE, a writer waits its turn of milliseconds.
"""

from __future__ import annotations

from typing import Any

import prefect
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.database.dependencies import MODELS_DEPENDENCIES
from prefect.settings import get_current_settings

from deployments.server.environment import TRIED_PREFECT


class ImmediateSqlite(AioSqliteConfiguration):
    """Prefect's own configuration, but every transaction is begun as the one that will write."""

    def begin_transaction(self, session: Any, with_for_update: bool = False) -> Any:
        """As in Prefect; `with_for_update` makes no difference here."""
        del with_for_update
        return super().begin_transaction(session, with_for_update=True)


def begin_immediately() -> None:
    """Use it in this process, with the versions of Prefect that it was tried with; others run as they are."""
    if prefect.__version__.startswith(TRIED_PREFECT):
        url = get_current_settings().server.database.connection_url
        assert url is not None
        MODELS_DEPENDENCIES["database_config"] = ImmediateSqlite(connection_url=url.get_secret_value())
