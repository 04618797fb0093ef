"""The process that recognizes the text on pictures of pages, started by a run of the flow `recognize`."""
