"""Names of tensors that exist in parts, one for some samples of the batch each."""

from __future__ import annotations

PART_MARK = "\x1f"
"""Between a tensor's name and the first sample of a part of it: the ASCII unit separator, which no
exporter puts into a name."""


def part_name(name: str, first_sample: int) -> str:
    """The name of a part of a tensor."""
    return f"{name}{PART_MARK}{first_sample}"


def whole_name(name: str) -> str:
    """The name of the tensor that this is a part of, or of a part of a part, or its own."""
    return name.partition(PART_MARK)[0]


def is_part(name: str) -> bool:
    """Whether a name is that of a part of a tensor."""
    return PART_MARK in name
