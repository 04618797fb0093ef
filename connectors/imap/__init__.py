"""Mail over IMAP: messages and their attachments as items.

`settings` and `auth` describe an account and its login. `session` is one connection, `pool` keeps a few of them,
`bounds` limits what a server may send, and `errors` translates its errors. `responses`, `bodystructure`, `folders` and
`names` parse what it sends. `changes` lists an account, `fetch` reads messages, and `idle` waits for new ones.
"""

from __future__ import annotations

from connectors.imap.connector import Imap

__all__ = ["Imap"]
