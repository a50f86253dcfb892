"""A toolchain whose answers are known: it compiles to a note and measures by a closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from compiler.options import CompileOptions
from compiler.target import DeviceSpec, Sku, device
from configurator.records import Candidate
from configurator.toolchain import Toolchain
from runtime_sim.measurement import Measurement
from runtime_sim.options import RunOptions
from tests.configurator import device_model

STD = device(Sku.STD)


@dataclass(frozen=True)
class Binary:
    """What the fake compiler makes."""

    options: CompileOptions


def no_trouble(options: CompileOptions | RunOptions) -> None:
    """The default of both fakes: nothing is refused and nothing breaks."""


@dataclass
class FakeCompiler:
    """Notes what it compiles; `trouble` may raise."""

    version: str = device_model.PROVENANCE.compiler_version
    trouble: Callable[[CompileOptions], None] = no_trouble
    compiled: list[CompileOptions] = field(default_factory=list)

    def compile(self, model: Path, options: CompileOptions, device: DeviceSpec) -> Binary:
        self.compiled.append(options)
        self.trouble(options)
        return Binary(options)


@dataclass
class FakeBackend:
    """Measures what `device_model` says; `trouble` may raise."""

    version: str = device_model.PROVENANCE.backend_version
    deterministic: bool = True
    trouble: Callable[[RunOptions], None] = no_trouble
    ran: list[Candidate] = field(default_factory=list)

    def run(self, program: Binary, options: RunOptions) -> Measurement:
        candidate = Candidate(program.options, options)
        self.ran.append(candidate)
        self.trouble(options)
        return device_model.measure(candidate)


@dataclass
class BrokenBackend:
    """Measures what it is told to."""

    measured: Measurement
    version: str = "broken"
    deterministic: bool = True

    def run(self, program: Binary, options: RunOptions) -> Measurement:
        return self.measured


def toolchain(
    compiler: FakeCompiler | None = None,
    backend: FakeBackend | None = None,
    timing_id: str = device_model.PROVENANCE.timing_id,
    card: DeviceSpec = STD,
) -> Toolchain[Binary]:
    """Both fakes on a card."""
    return Toolchain(
        compiler=compiler or FakeCompiler(),
        backend=backend or FakeBackend(),
        device=card,
        timing_id=timing_id,
    )
