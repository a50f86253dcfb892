"""The command line. `main` is the console script."""

from configurator.cli.app import main

__all__ = ["main"]
