"""A compiled network in Python, with the calls of the vendor's `qaic.Session`, on the simulator.

    from configurator import Session

    with Session("qpc/programqpc.bin", num_activations=2) as session:
        outputs = session.run({"pixels": pixels})       # values, as the card would round them
        completed, rate, seconds, batch = session.run_benchmark(num_inferences=1000)

Values are computed on this machine, tile by tile; that takes longer than on a card, and says
nothing of time. Times are those of the simulated card.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from compiler.target import Sku, device
from configurator.card_run import DEFAULT_INFERENCES, Amount, run_on_card
from configurator.errors import UsageError
from configurator.feeds import Network, read_network
from runtime_sim.options import RunOptions, violations

if TYPE_CHECKING:  # numpy takes a while to import
    import numpy as np

    from compiler.ir.graph import Array
    from compiler.program import Binding, Program

    Shapes = dict[str, tuple[list[int], np.dtype[np.generic]]]


class Benchmark(NamedTuple):
    """What a benchmark showed: batches completed by all activations, and samples a second."""

    inf_completed: int
    inf_rate: float
    inf_time_s: float
    batch_size: int


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The program, and the network with its constants once values were asked for."""

    program: Program
    network: Network | None = None


class Session:
    """A QPC of `qaic-exec-sim` or `configurator compile` on the simulated card.

    `qpc_path` is the file or its folder; `sku` the card, the one that it was compiled for by
    default. What is wrong with the file raises a `CompileError`, what the card refuses a
    `DeviceError`, and what arguments cannot be a `UsageError`.
    """

    def __init__(
        self,
        qpc_path: str | os.PathLike[str],
        *,
        sku: Sku | str | None = None,
        num_activations: int = 1,
        set_size: int = 10,
        num_threads: int = 4,
    ) -> None:
        self._path = Path(qpc_path)
        self._sku = None if sku is None else _sku(sku)
        self._options = RunOptions(
            instances=num_activations, set_size=set_size, threads_per_queue=num_threads
        )
        self._loaded: _Loaded | None = None

    def setup(self) -> None:
        """Load the network on the card, unless it is there; other calls do it by themselves."""
        self._program()

    def reset(self) -> None:
        """Release what was loaded; the next call loads it anew."""
        self._loaded = None

    @property
    def batch_size(self) -> int:
        """Samples of one inference."""
        return self._program().options.batch_size

    @property
    def model_input_shape_dict(self) -> Shapes:
        """Shape and numpy type of each input by name."""
        return _shapes(self._program().inputs)

    @property
    def model_output_shape_dict(self) -> Shapes:
        """Shape and numpy type of each output by name."""
        return _shapes(self._program().outputs)

    def run(self, input_dict: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of one inference by name, floats rounded to fp16 where the card does it.

        Raises `ExecutionError` where an input is missing or misshaped, and `UsageError` where one
        is unknown or its type is none that the network's holds.
        """
        program = self._program()
        _check(program.inputs, input_dict)
        return self._network().outputs(input_dict)

    def run_benchmark(
        self,
        num_inferences: int = DEFAULT_INFERENCES,
        inf_time: float | None = None,
        input_dict: Mapping[str, Array] | None = None,
    ) -> Benchmark:
        """The simulated rate of `num_inferences` over all activations, or of `inf_time` seconds.

        `input_dict` is only checked: times do not depend on values.
        """
        if num_inferences < 1:
            raise UsageError(f"num_inferences is {num_inferences}, must be 1 or more")
        if inf_time is not None and not 0 < inf_time < math.inf:
            raise UsageError(f"inf_time is {inf_time} s, must be finite and more than 0")
        program = self._program()
        if input_dict is not None:
            _check(program.inputs, input_dict)
        amount = Amount(inferences=num_inferences, seconds=inf_time)
        card = device(self._sku or program.sku)
        ran = run_on_card(program, card, self._options, amount)
        return Benchmark(ran.inferences, ran.inferences_per_s, ran.duration_s, ran.batch_size)

    def __enter__(self) -> Session:
        self.setup()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.reset()

    def _program(self) -> Program:
        if self._loaded is None:
            from compiler import qpc

            program = qpc.read(self._path)
            card = device(self._sku or program.sku)
            found = violations(self._options, program.options.num_cores, card)
            if found:
                raise UsageError("; ".join(found))
            self._loaded = _Loaded(program)
        return self._loaded.program

    def _network(self) -> Network:
        if self._loaded is None or self._loaded.network is None:
            network = read_network(self._path)
            self._loaded = _Loaded(network.program, network)
            return network
        return self._loaded.network


def _sku(named: Sku | str) -> Sku:
    try:
        return Sku(named)
    except ValueError:
        known = ", ".join(sku.value for sku in Sku)
        raise UsageError(f"sku is {named}: unknown card; known: {known}") from None


def _shapes(bindings: tuple[Binding, ...]) -> Shapes:
    from compiler.execute.rounding import numpy_dtype

    return {item.name: (list(item.shape), numpy_dtype(item.dtype)) for item in bindings}


def _check(bindings: tuple[Binding, ...], given: Mapping[str, Array]) -> None:
    names = [binding.name for binding in bindings]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(f"the network has no input {unknown[0]}; it has {', '.join(names)}")
    for binding in bindings:
        if binding.name in given:
            _check_type(binding, given[binding.name])


def _check_type(binding: Binding, value: Array) -> None:
    import numpy as np

    from compiler.execute.rounding import numpy_dtype

    found, wanted = np.asarray(value).dtype, numpy_dtype(binding.dtype)
    if not np.can_cast(found, wanted, "same_kind"):
        raise UsageError(f"input {binding.name} is {found}, the network has {wanted}")
