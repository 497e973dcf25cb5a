"""The command line: one file a command, each importing what it needs when it runs."""
