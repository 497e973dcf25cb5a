"""Work in other processes with limits of time and memory: `child` for one call at a time, `process` for many jobs at once."""
