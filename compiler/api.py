"""The seam between tuning and whatever compiles a model."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

from compiler.options import CompileOptions
from compiler.target import DeviceSpec

P_co = TypeVar("P_co", covariant=True)


class Compiler(Protocol[P_co]):
    """Turns a model file into something that a matching backend can run.

    A protocol, because the implementations must not know each other. Same inputs give an equal
    program. Refusals are `CompileError`s; `DoesNotFitError` and `OptionError` are results of the
    candidate, the others are defects of the model.
    """

    @property
    def version(self) -> str:
        """What compiles: changes whenever programs may change."""

    def compile(self, model: Path, options: CompileOptions, device: DeviceSpec) -> P_co:
        """Compile `model` for one instance of `options.num_cores` NSPs of `device`."""
