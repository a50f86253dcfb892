"""`python -m configurator` is the console script."""

from configurator.cli import main

if __name__ == "__main__":
    main()
