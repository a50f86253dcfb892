"""Names of tensors that exist in parts, one for some samples of the batch each."""

from __future__ import annotations

PART_MARK = "#"
"""Between a tensor's name and the first sample of a part of it."""


def part_name(name: str, first_sample: int) -> str:
    """The name of a part of a tensor."""
    return f"{name}{PART_MARK}{first_sample}"


def whole_name(name: str) -> str:
    """The name of the tensor that this is a part of, or its own."""
    return name.rpartition(PART_MARK)[0] or name
