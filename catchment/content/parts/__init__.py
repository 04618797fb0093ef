"""Files inside of files: list the parts of an archive, a mailbox, a message or a document, and read one of them.

`containers` serves all formats; `archive_members`, `message_members` and `embedded` have the formats.
`listing` lists the parts of an item at all levels within one budget, and reads a part by its address. All of it runs in parser
processes: the bytes are of strangers.
"""
