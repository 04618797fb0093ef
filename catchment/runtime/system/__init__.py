"""What only one operating system has. A port adds a module beside `linux`; other modules call these names."""
