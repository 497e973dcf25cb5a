"""The cache that later processes reuse: compiled rules, the tables of the grammar, and ONNX's operator schemas."""
