"""Our program as a segment: a JSON head, and the columns of its tasks and tiles."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from compiler.errors import QpcError
from compiler.program import Program, verify
from compiler.qpc import payload
from compiler.qpc.payload import Array

PROGRAM_SEGMENT = "aic_configurator_program"


def encode(program: Program) -> bytes:
    """The content of our program segment; equal programs are equal bytes."""
    columns = [
        getattr(getattr(program, table), column).astype(dtype)
        for table, column, dtype in _columns()
    ]
    values = {name: payload.plain(getattr(program, name)) for name in _plain_fields()}
    head = {"layout": _layout(), "program": values, "lengths": [len(c) for c in columns]}
    return payload.seal(head, columns)


def decode(content: bytes) -> Program:
    """The program of a segment; `QpcError` where it is damaged or of another layout."""
    head, body = payload.unseal(content, "program")
    try:
        if head["layout"] != _layout():
            raise QpcError(
                f"the program has layout {head['layout']}, this version reads {_layout()}; "
                "compile it again"
            )
        dtypes = [dtype for _, _, dtype in _columns()]
        arrays = payload.columns_of(body, dtypes, head["lengths"])
        program = _program(head["program"], arrays)
        verify(program)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise QpcError(f"the program segment is damaged: {error}") from error
    return program


def _program(values: dict[str, Any], arrays: list[Array]) -> Program:
    hints = get_type_hints(Program)
    found = {name: payload.restored(hints[name], values[name]) for name in _plain_fields()}
    tables: dict[str, dict[str, Array]] = {}
    for (table, column, _), array in zip(_columns(), arrays, strict=True):
        tables.setdefault(table, {})[column] = array
    found.update({name: hints[name](**columns) for name, columns in tables.items()})
    return Program(**found)


@lru_cache(maxsize=1)
def _columns() -> tuple[tuple[str, str, np.dtype[Any]], ...]:
    """Table, column and stored dtype of every array of a program."""
    return tuple(
        (table, column, np.dtype(_element(hint)).newbyteorder("<"))
        for table, kind in get_type_hints(Program).items()
        if _is_table(kind)
        for column, hint in get_type_hints(kind).items()
    )


def _is_table(kind: Any) -> bool:
    """A dataclass that holds nothing but arrays."""
    if not is_dataclass(kind):
        return False
    return all(get_origin(hint) is np.ndarray for hint in get_type_hints(kind).values())


def _element(array_hint: Any) -> Any:
    """The element type in `NDArray[element]`."""
    _, dtype_hint = get_args(array_hint)
    return get_args(dtype_hint)[0]


@lru_cache(maxsize=1)
def _plain_fields() -> tuple[str, ...]:
    tables = {table for table, _, _ in _columns()}
    return tuple(field.name for field in fields(Program) if field.name not in tables)


@lru_cache(maxsize=1)
def _layout() -> str:
    return payload.layout_of(Program)
