"""What processes leave to those after them: compiled rules, the tables of the grammar, and what ONNX says of its operators."""
