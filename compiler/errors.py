"""Errors of the compiler.

    CompileError            anything that ends a compilation, with a message for the user
    |-- ModelFileError      the file is missing, unreadable, truncated or not ONNX
    |-- ModelError          the graph is ill-formed: cycle, duplicate name, dangling use, no nodes
    |-- SymbolError         a symbolic dimension is unbound, unknown or bound to a wrong value
    |-- UnsupportedError    a valid graph that this compiler refuses: operator, rank, control flow
    |-- OptionError         compile options that are wrong by themselves or for the device
    |-- DoesNotFitError     the program needs more of a memory than the device has
    |-- QpcError            a program container that cannot be read or written
    `-- ExecutionError      a program that cannot be run for its values on the given inputs

`DoesNotFitError` is a result for the tuner (an infeasible point), the others are faults of the
input.
"""

from __future__ import annotations


class CompileError(Exception):
    """A compilation that cannot go on; `str(error)` is one line: what, where, and a lever."""


class ModelFileError(CompileError):
    """The model file is missing, unreadable, truncated or not an ONNX file."""


class ModelError(CompileError):
    """The graph contradicts itself or holds nothing to compile."""


class SymbolError(CompileError):
    """A symbolic dimension is unbound, unknown, or bound to a value that cannot be."""


class UnsupportedError(CompileError):
    """A valid graph that is refused; names the node, the operator and its opset."""


class OptionError(CompileError):
    """Compile options that are illegal by themselves or on this device."""


class DoesNotFitError(CompileError):
    """A memory of the device is too small for the program; names both numbers and a lever."""


class QpcError(CompileError):
    """A program container that is missing, damaged or of another format."""


class ExecutionError(CompileError):
    """Inputs that do not fit the program, or a program that reads what it has not made."""
