"""Changes that people make to one model by hand, a command each: cut, merge, edit, reduce, convert, inspect.

`surgery` changes models, `inspect` lists their contents, and `authoring` begins rules from a model. `style` has the colours of
printed text.

Each command reads one model, or a few, and returns one result. Begin with `surgery/opened.py` and `surgery/finish.py`, through
which every change of a model goes.
"""
