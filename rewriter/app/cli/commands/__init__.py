"""The commands as declarations, a module for those of one purpose; each imports what it needs when it runs."""
