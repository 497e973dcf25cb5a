"""The parts that users see: the command line, batches of models, reports, configuration and editors.

`cli` reads a command line and runs one command. `batch` repairs one model or thousands, from file to file. `report` writes
reports for people and for machines. `configuration` reads the settings of a project. `editor` serves rule files to editors.

The other tiers do the work, and no tier imports this one. Begin with `cli/main.py`, and with `batch/repair.py` for the steps of
`rewriter fix`.
"""
