"""Two models held against each other: by what their nodes compute from what, and not by names of inner tensors."""
