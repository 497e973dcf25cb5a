"""What people do to a model by hand, one command each: cut, merge, edit, reduce, convert, look.

`surgery` changes models, `inspect` says what they are made of, and `authoring` begins rules from a model. `style` has the
colours of what they print.

Each works on one model and gives one result. Begin with `surgery/opened.py` and `surgery/finish.py`, which every change of a
model goes through.
"""
