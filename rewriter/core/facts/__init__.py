"""What is known of each tensor: element types, shapes, and the values of those that carry shapes."""
