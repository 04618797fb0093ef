"""The sinks, the changes that each has to receive, and the documents as they receive them."""
