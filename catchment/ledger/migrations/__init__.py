"""Leading an older ledger forward, by alembic, in one transaction and after a backup. Never backward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from catchment.errors import SchemaMismatch
from catchment.ledger.store import Store

_HERE = Path(__file__).parent


def forward(store: Store, found: str, *, backed_up: bool = False) -> None:
    """Bring a ledger of revision `found` to the program's, after a backup where there is none.

    Raises SchemaMismatch when it is newer than the program.
    """
    from catchment.ledger.opening import back_up

    if found not in {script.revision for script in _scripts().walk_revisions()}:
        raise SchemaMismatch(
            f"The ledger is of revision {found}, which this program does not know; install a newer one"
        )
    if store.file is not None and not backed_up:
        back_up(store, store.file)
    with store.write() as writing:
        run(writing.connection)


def run(connection: Connection) -> None:
    """Run every migration that this database has not had, in the caller's transaction."""
    scripts = _scripts()

    def steps(current: Any, _context: Any) -> Any:
        return scripts._upgrade_revs("head", current)

    with EnvironmentContext(_config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, version_table="revision", transactional_ddl=False)
        environment.run_migrations()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
