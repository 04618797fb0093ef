"""What runs where: the server and the worker behind `up` and `down`, the sources file, and its deployments.

Nothing here imports Prefect except `deployments.child`, which runs in processes of its own: the command line stays fast.
"""
