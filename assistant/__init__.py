"""The server of assistants (`catchment mcp`): search and read the library over the Model Context Protocol.

    mcp_server.py      the tools, their schemas and the protocol, over stdio
    over_http.py       the same over HTTP, on loopback, behind a token
    shared_library.py  the answer of each tool
    answers.py         the arguments and answers of the tools
    untrusted.py       texts of other people: cleaned, in separate fields, and fenced in the text form
    sharing.py         the sources that assistants may use
    clients.py         the programs with assistants on this machine, and the entry that starts the server there

The ledger is opened for reading only. No Prefect. The names, descriptions and schemas of the tools are frozen
(`tests/assistant/tools.json`), because assistants are configured with them.
"""
