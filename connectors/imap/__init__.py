"""Mail over IMAP: messages and their attachments as items.

`settings` and `auth` describe an account and its login. `connection` is one connection, `connection_pool` keeps a few of
them, `bounds` limits the responses, and `errors` translates errors. `responses`, `bodystructure`, `mail_folders` and
`names` parse responses. `account_listing` lists an account, `fetch` reads messages, and `idle` waits for new ones.
"""

from __future__ import annotations

from connectors.imap.connector import Imap

__all__ = ["Imap"]
