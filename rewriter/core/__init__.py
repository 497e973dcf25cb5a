"""The engine: from the text of a rule and the bytes of a model to a rewritten model.

`language` compiles rules, `onnxfile` reads and writes models as bytes, `graph` holds their nodes and tensors, `facts` derives
types, shapes and values, `conditions` evaluates `where` lines, `matching` finds patterns, `rewriting` edits the graph, and
`engine` applies rules up to the fixpoint and writes the `log`. `framework` detects who exported a model.

The core imports no other tier. Rules that call repairs outside of the core reach them through `whole_model`. Begin with
`engine/run.py`, and with `matching/__init__.py`, which explains why only few rules are tried.
"""
