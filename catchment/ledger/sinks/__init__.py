"""The sinks, what each has to receive, and the documents as they receive them."""
