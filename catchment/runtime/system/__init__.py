"""Features of one operating system. A port adds a module beside `linux`; other modules call these names."""
