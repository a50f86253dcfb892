"""Printed lines, and files that are announced by one."""

from __future__ import annotations

from pathlib import Path

from configurator.errors import ToolError
from configurator.tables import one_line


def say(line: str) -> None:
    """Print at once, so that a pipe sees it."""
    print(line, flush=True)


def write_file(path: Path, content: bytes) -> None:
    """Write anew, and say so as the real tool does; raises `ToolError`."""
    try:
        if path.exists():
            say(one_line(f"Deleting previous file:{path}"))
            path.unlink()
        say(one_line(f"Writing file:{path}"))
        path.write_bytes(content)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # a name of the model that no file can have
        raise ToolError(f"{path}: {error}") from error
