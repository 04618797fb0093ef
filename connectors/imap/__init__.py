"""Mail by IMAP: messages and what is attached to them, as items.

`settings` is what a person says, `login` makes a login of it, `session` is one connection, `refusals` what its errors mean,
`pool` the few connections there are, `names` how a message is called, `folders` what a folder says of itself, `structure`
which parts are files, `changes` what is different, `content` how messages are read.
"""

from __future__ import annotations

from connectors.imap.connector import Imap

__all__ = ["Imap"]
