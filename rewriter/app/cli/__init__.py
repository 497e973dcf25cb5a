"""The command line: what the commands share; each command is a module in `commands`."""
