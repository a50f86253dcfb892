"""Inputs of a compiled network from files or at random, and its outputs by real execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from configurator.errors import ToolError, UsageError

if TYPE_CHECKING:  # numpy takes a while to import
    from compiler.ir.graph import Array, Graph
    from compiler.program import Binding, Program

    Values = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Network:
    """What a QPC holds to be executed."""

    program: Program
    graph: Graph

    def outputs(self, inputs: Values) -> dict[str, Array]:
        """The values of one inference; `ExecutionError` where an input is missing or misshaped."""
        from compiler.execute.run import execute

        return execute(self.program, self.graph, inputs)


def read_network(directory: Path) -> Network:
    """The network of a QPC; raises `QpcError` where it was written without its graph."""
    from compiler import qpc

    return Network(qpc.read(directory), qpc.read_graph(directory))


def read_inputs(bindings: Sequence[Binding], files: Sequence[Path]) -> dict[str, Array]:
    """Raw files, one an input in the order of the network; `UsageError` where they do not fit."""
    if len(files) != len(bindings):
        names = ", ".join(binding.name for binding in bindings)
        raise UsageError(f"{len(files)} input files, the network has {len(bindings)}: {names}")
    pairs = zip(bindings, files, strict=True)
    return {binding.name: _read_input(binding, file) for binding, file in pairs}


def _read_input(binding: Binding, file: Path) -> Array:
    import numpy as np

    from compiler.execute.rounding import numpy_dtype

    dtype = numpy_dtype(binding.dtype)
    needed = prod(binding.shape) * dtype.itemsize
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ToolError(f"{file}: {error.strerror}") from error
    if len(content) != needed:
        shape = "x".join(map(str, binding.shape)) or "scalar"
        raise UsageError(
            f"{file}: has {len(content)} bytes, input {binding.name} "
            f"({binding.dtype.value} {shape}) needs {needed}"
        )
    return np.frombuffer(content, dtype).reshape(binding.shape)


def random_inputs(bindings: Sequence[Binding], *, bounded: bool = True) -> dict[str, Array]:
    """The same at each call: floats from -1 to 1, and integers of 0 and 1, which any table has.

    Unbounded: any value of the type, infinities and no-numbers among the floats.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    return {binding.name: _random(binding, rng, bounded) for binding in bindings}


def _random(binding: Binding, rng: object, bounded: bool) -> Array:
    import numpy as np

    from compiler.execute.rounding import numpy_dtype

    assert isinstance(rng, np.random.Generator)
    dtype = numpy_dtype(binding.dtype)
    if not bounded and dtype.kind != "b":
        content = rng.bytes(prod(binding.shape) * dtype.itemsize)
        return np.frombuffer(content, dtype).reshape(binding.shape)
    if binding.dtype.is_float:
        return rng.uniform(-1, 1, binding.shape).astype(dtype)
    return rng.integers(0, 2, binding.shape).astype(dtype)
