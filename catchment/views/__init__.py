"""The read model: one function for each thing that a person looks at, for the console, the web process and assistants."""
