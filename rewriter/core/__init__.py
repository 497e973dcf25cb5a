"""From the text of a rule and the bytes of a model to a rewritten model: all that a run of rules needs, and nothing else.

`language` makes rules of text, `onnxfile` reads and writes models as bytes, `graph` holds their nodes and tensors, `facts`
knows types, shapes and values, `conditions` evaluates what rules ask, `matching` finds their patterns, `rewriting` edits, and
`engine` runs rules to the fixpoint and writes the `log`. `framework` knows who exported a model.

Nothing here imports another tier; what rules call and the core does not contain comes by way of `whole_model`. Begin with
`engine/run.py`, and with `matching/__init__.py` for how few rules are tried.
"""
