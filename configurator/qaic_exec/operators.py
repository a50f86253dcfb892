"""What `-operators-supported` prints."""

from __future__ import annotations

from compiler.frontend import SupportedOperator, supported_operators
from configurator.errors import UsageError
from configurator.tables import grid


def operators_text(framework: str) -> str:
    """One operator a line, with domain and opsets; raises `UsageError` for other frameworks."""
    if framework != "onnx":
        raise UsageError(f"-operators-supported={framework}: only ONNX models can be compiled")
    rows = [[row.name, row.domain, _opsets(row)] for row in supported_operators()]
    return grid([["operator", "domain", "opsets"], *rows], left=(0, 1, 2))


def _opsets(row: SupportedOperator) -> str:
    return "any" if row.since is None else f"{row.since} to {row.until}"
