"""Two models run side by side, tensor by tensor, to find where they part.

`pairs` says which tensor of one model is which of the other, `cut` takes out the part of a model that computes given tensors,
`half` runs such parts and knows which nodes cannot be run, and `search` goes through the pairs within a memory budget.
"""
