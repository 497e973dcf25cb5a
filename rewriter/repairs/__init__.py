"""Repairs that rules call by name, because no pattern of nodes can express them.

`model_faults` finds and repairs faults of a whole model, such as nodes out of order (`mend model.unsorted_nodes`).
`dim_follow` changes the values that depend on a dimension that gets a name, such as the numbers in a Reshape.

The core calls them through `core.whole_model`; `rewriter/__init__.py` connects the two. Begin with `entry.py`.
"""
