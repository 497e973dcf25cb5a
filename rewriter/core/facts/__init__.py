"""Facts about each tensor: element types, shapes, and the values of tensors that carry shapes."""
