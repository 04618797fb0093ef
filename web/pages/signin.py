"""Signing in by a one-time link, and signing out."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from catchment.runtime import own_secrets
from web.readiness import Readiness
from web.sessions import Sessions, form_fields
from web.site import Site


def routes(sessions: Sessions, site: Site, readiness: Readiness, keys: Path) -> list[BaseRoute]:
    """Return the routes of `/signin` and `/signout`. Signing in continues at the Prefect UI, which leads back here.

    `keys`: the folder of the one-time keys.
    """

    async def sign_in(request: Request) -> Response:
        if (key := request.query_params.get("key")) is None:
            return site.bare("signin.html", state="new")
        if (session := sessions.sign_in(key, request.scope)) is None:
            return site.bare("signin.html", 403, state="used")
        response: Response = RedirectResponse("/", 303)
        if readiness.ui is not None and await readiness.server_responds():
            query = urlencode({"key": own_secrets.one_time_key(keys), "page": request.base_url})
            response = RedirectResponse(f"{readiness.ui}/signin?{query}", 303)
        elif request.headers.get("sec-fetch-site") == "cross-site":
            # After a redirect, the browser would not send the cookie to `/`: another page led it here.
            response = site.bare("signin.html", state="done")
        sessions.set_cookie(response, session)
        return response

    async def sign_out(request: Request) -> Response:
        await form_fields(request)
        sessions.sign_out(request.scope)
        return RedirectResponse("/signin", 303)

    return [Route("/signin", sign_in), Route("/signout", sign_out, methods=["POST"])]
