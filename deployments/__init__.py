"""What runs where: the server and the worker behind `up` and `down`, the sources file, and its deployments.

Only processes that `up` starts (`deployments.server.app`, the worker, its runs) import Prefect: commands stay quick.
"""
