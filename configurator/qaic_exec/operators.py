"""What `-operators-supported` prints."""

from __future__ import annotations

from compiler.operators import INTERNAL_DOMAIN, OPERATORS
from configurator.errors import UsageError

_DEFAULT_DOMAIN = "ai.onnx"


def operators_text(framework: str) -> str:
    """One operator a line, with its domain; raises `UsageError` for other frameworks."""
    if framework != "onnx":
        raise UsageError(f"-operators-supported={framework}: only ONNX models can be compiled")
    rows = sorted((domain or _DEFAULT_DOMAIN, name) for domain, name in OPERATORS)
    shown = [f"{name} ({domain})" for domain, name in rows if domain != INTERNAL_DOMAIN]
    return "\n".join([*shown, f"{len(shown)} operators"])
