"""A program and run options in; a measurement out."""
