"""Changes that people make to one model by hand, one command each: cut, merge, edit, reduce, convert, inspect.

`surgery` changes models, `inspect` lists their contents, and `authoring` begins rules from a model.

Each command reads one or a few models, and returns one result. Begin with `surgery/opened.py` and `surgery/finish.py`: every
change of a model goes through them.
"""
