"""One module for each consumer. `worker` runs them in environments without this package: they import NumPy and the consumer."""
