"""What runs where: the server and the worker behind `up` and `down`, the sources file, and its deployments.

Only `deployments.supervisor.zygote` imports Prefect, in processes of its own: the command line stays fast.
"""
