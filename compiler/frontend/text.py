"""Strings of a model file, which are meant to be UTF-8."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import ModelFileError


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """The strings of a message; protobuf hands out one that is no UTF-8 as bytes.

    Raises `ModelFileError` for such a one.
    """
    checked = tuple(values)
    for value in checked:
        if type(value) is not str:
            raise ModelFileError(f"the name {value!r} is not UTF-8: the file is damaged")
    return checked


def text(value: str) -> str:
    """One string, see `texts`."""
    return texts((value,))[0]
