"""The model to beat: a sum over operators with nine parameters, as an afternoon gives it.

Each product is divided over the cores in whole blocks, at one HMX efficiency; each other operator
costs a fixed number of cycles an element, shared by the cores; operators cost something besides;
weights that do not fit are read from DDR; a lone instance waits for its host. No schedule, no
memory plan, no exchange, no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.program import Layer, Program, TaskKind, VectorOp
from compiler.target import device
from runtime_sim.timing import PUBLISHED
from studies.calibration.fit import descend, differences, moved_from
from studies.calibration.observations import Observation, weights_of

F64 = NDArray[np.float64]

_BLOCK, _BLOCK_CYCLES = 32, 8
_CLOCK_HZ = 1.3e9
_PIPELINED = 0.7
"""Share of reading weights that products hide."""

START = np.array([0.73, 5960.0, 531.0, 670.0, 0.018 * 40.3, 0.6, 114e9, 73e-6, 12.98e9])
"""HMX efficiency; cycles of a product, for each further core, and of another operator; HVX cycles
relative to the published classes; share of VTCM that weights may fill; DDR bytes a second; the
host's gap in seconds; PCIe bytes a second. assumed: what others found for such a model."""


_SPREAD, _SIGMA = 0.7, 0.1
"""assumed: of a parameter's logarithm before the fit, and of the errors that the model makes."""


@dataclass(frozen=True, slots=True)
class Network:
    """What the model knows of a program: cycles of products on the fullest core, and the rest."""

    products: int
    hmx_cycles: float
    hvx_cycles: float
    others: int
    weights_bytes: float


def network_of(program: Program) -> Network:
    """From the tasks of a program, whose own division over the cores cancels out."""
    tasks, layers = program.tasks, program.layers
    matmul = np.isin(tasks.kind, (TaskKind.MATMUL, TaskKind.MATMUL_INT8))
    products = [_product(program, layer) for layer in np.unique(tasks.layer[matmul]).tolist()]
    vector = tasks.kind == TaskKind.VECTOR
    cost = np.asarray(PUBLISHED.vector_millicycles)[np.where(vector, tasks.w1, 0)] / 1e3
    classes = tasks.w1[vector]
    moved = np.isin(classes, (VectorOp.TO_D32, VectorOp.FROM_D32))
    others = len(np.unique(tasks.layer[vector][~moved]))
    weights = float(sum(_weights(layers)))
    hmx_cycles = sum(_block_cycles(product, program.options.num_cores) for product in products)
    hvx_cycles = float((tasks.w0 * cost)[vector].sum())
    return Network(len(products), hmx_cycles, hvx_cycles, others, weights)


def _weights(layers: Sequence[Layer]) -> list[int]:
    return [size for size in {layer.name: layer.weight_bytes for layer in layers}.values()]


def _product(program: Program, layer: int) -> tuple[float, float, float, float]:
    """Rows and outputs of all cores together; of parts of the batch each counts for itself."""
    tasks = program.tasks
    own = (tasks.layer == layer) & (tasks.kind != TaskKind.VECTOR) & (tasks.w3 > 0)
    macs = float((tasks.w0 * tasks.w1 * tasks.w2 * tasks.w3)[own].sum())
    inputs, repeats = float(tasks.w1[own][0]), float(tasks.w3[own][0])
    outputs = float(program.layers[layer].output_shape[program.layers[layer].channel_axis])
    outputs = max(outputs, float(tasks.w2[own].max()))
    return max(1.0, macs / (inputs * outputs * repeats)), inputs, outputs, repeats


def rate_per_s(network: Network, observation: Observation, values: F64) -> float:
    """Samples a second of the whole card."""
    row, program = observation.row, observation.program
    efficiency, product, core, other, vector, room, ddr, gap, pcie = values.tolist()
    cores, instances = program.options.num_cores, row.run.instances
    issue = network.products * (product + core * (cores - 1)) + network.others * other
    compute_s = (
        network.hmx_cycles / efficiency + network.hvx_cycles * vector / cores + issue
    ) / _CLOCK_HZ
    streams = network.weights_bytes > room * cores * device(row.sku).vtcm_bytes
    read_s = network.weights_bytes * instances / ddr if streams else 0.0
    execution_s = max(compute_s, read_s) + (1 - _PIPELINED) * min(compute_s, read_s)
    moved = program.input_bytes + program.output_bytes
    if row.run.set_size == 1:
        execution_s += gap + moved / pcie
    batch = program.options.batch_size
    ceiling = batch * pcie / max(program.input_bytes, program.output_bytes)
    return float(min(batch * instances / execution_s, ceiling))


def _block_cycles(product: tuple[float, float, float, float], cores: int) -> float:
    """Cycles on the fullest core, of the best division into rows and outputs."""
    rows, inputs, outputs, repeats = product
    splits = [(cores // channels, channels) for channels in range(1, cores + 1)]
    blocks = min(
        np.ceil(rows / across / _BLOCK) * np.ceil(outputs / channels / _BLOCK)
        for across, channels in splits
    )
    return float(blocks * np.ceil(inputs / _BLOCK) * repeats * _BLOCK_CYCLES)


def fitted(observations: Sequence[Observation], networks: Sequence[Network]) -> F64:
    """The nine parameters, by Gauss-Newton on the logarithms of the rates."""
    known = [at for at, one in enumerate(observations) if one.row.measured_ips is not None]
    weight = weights_of(observations)[known]

    def errors(logs: F64) -> F64:
        values = START * np.exp(logs)
        found = [
            np.log(
                rate_per_s(networks[at], observations[at], values) / _measured(observations[at])
            )
            for at in known
        ]
        return np.asarray(np.array(found) * weight / _SIGMA, dtype=np.float64)

    def derivatives(logs: F64, residuals: F64) -> F64:
        return differences([errors(point) for point in moved_from(logs)], residuals)

    logs, _ = descend(errors, derivatives, np.full(len(START), _SPREAD), lambda *_: None)
    return START * np.exp(logs)


def _measured(observation: Observation) -> float:
    assert observation.row.measured_ips is not None
    return observation.row.measured_ips
