"""What a person meets: the command line, batches of models, reports, configuration, editors.

`cli` reads a command line and runs one command, `batch` repairs one model or thousands from file to file, `report` shows what
happened to people and machines, `config` reads a project's settings, and `editor` serves rule files to editors.

All work is done in the other tiers. Begin with `cli/main.py`, and with `batch/repair.py` for what `rewriter fix` does to a
model.
"""
