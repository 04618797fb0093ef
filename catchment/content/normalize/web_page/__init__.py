"""Web pages that were fetched from an address: their main text, and what they state about themselves."""

from __future__ import annotations

from catchment.content.normalize.web_page.main_text import web_page

__all__ = ["web_page"]
