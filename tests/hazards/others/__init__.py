"""Other ingestion libraries, each used as its documentation proposes, in a separate environment.

Each module is a program that ingests a folder and prints its contents as JSON. It imports no module of Catchment.
Corrections by experts in a library are welcome.
"""
