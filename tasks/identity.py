"""The identity of a source in a run: its deployment decides it, and the parameters of a single run cannot change it.

Otherwise a run with another folder in its form would compare that folder with the items of the source.
"""

from __future__ import annotations

from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment
from pydantic import ValidationError

from catchment.errors import Refused
from catchment.settings import SourceSettings


async def require_identity(name: str, settings: SourceSettings) -> None:
    """Raise Refused if a run has another name than its deployment, or other settings in `identity`."""
    if deployment.id is None:
        return
    async with get_client() as client:
        try:
            configured = (await client.read_deployment(UUID(deployment.id))).parameters
        except ObjectNotFound:
            return
    changed = [] if configured.get("name", name) == name else ["name"]
    if "settings" in configured:
        try:
            changed += settings.differing(type(settings).model_validate(configured["settings"]))
        except ValidationError:
            # Its message would show the settings.
            raise Refused(f"{name}: the settings of the deployment are invalid; run `catchment up`") from None
    if changed:
        raise Refused(
            f"{name}: a run cannot change {', '.join(changed)}, which identify the source; edit sources.yaml and run "
            "`catchment up`, or add another source"
        )
