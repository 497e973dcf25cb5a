"""What is kept between processes: compiled rules, and what ONNX says of its operators."""
