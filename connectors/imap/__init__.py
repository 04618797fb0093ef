"""Mail by IMAP: messages and what is attached to them, as items.

`settings` is what a person says, `session` one connection, `pool` the few there are, `names` how a message is called, `folders`
what a folder says of itself, `structure` which parts are files, `changes` what is different, `content` how messages are read.
"""

from __future__ import annotations

from connectors.imap.connector import Imap

__all__ = ["Imap"]
