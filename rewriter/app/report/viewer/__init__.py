"""One page that shows a whole model, or two side by side: the data in Python, the layout and the drawing in JavaScript."""
