"""Native code that judges models, kept in a process of its own with limits of time and memory."""
