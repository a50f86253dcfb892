"""Where the time of an inference went: its stages, the path through its execution, its work."""
