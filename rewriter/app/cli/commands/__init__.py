"""The commands as declarations, one module for each purpose. A command imports the modules that it needs when it runs."""
