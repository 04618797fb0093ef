"""The web process: search with a warm model, and whether the system works, as JSON on the loopback interface.

It also embeds the few passages of a saved note, because its model is loaded. It may be killed at any time; without it,
search works by words, and the flow `embed` makes the embeddings.
"""
