"""The server and the worker behind `up` and `down`, the sources file, its deployments, the watcher and the health checks.

Only processes that `up` starts (`deployments.server.app`, the worker, its runs) import Prefect: commands stay quick.
"""
