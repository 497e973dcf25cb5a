"""Repairs that rules call by name and cannot say: of a model as a whole.

`model_faults` finds and mends what no pattern of nodes shows, such as nodes out of order (`mend model.unsorted_nodes`).
`dim_follow` changes what has to follow when a dimension of an input gets a name, such as the numbers in a Reshape.

The core asks for them by way of `core.whole_model`, and `rewriter/__init__.py` says that they are here. Begin with
`entry.py`.
"""
