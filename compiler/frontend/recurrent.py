"""LSTM, GRU and RNN layers as the steps that they are made of.

The number of steps is known once shapes are. The equations and the order of the gates are those
of the ONNX operators LSTM (i, o, f, c), GRU (z, r, h) and RNN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call
from compiler.frontend.made import Expansion, Maker
from compiler.frontend.tensors import numpy_dtype
from compiler.ir.dtypes import DType
from compiler.ir.graph import TensorType

# Gates of each layer; the default activations are the only ones that exporters write.
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}

# assumed: unrolled to more, a layer would take minutes to compile.
_MAX_STEPS = 4096


def is_recurrent(call: Call) -> bool:
    """Whether the call is a recurrent layer."""
    return call.op in _GATES and not call.domain


def unrolled(call: Call, types: Mapping[str, TensorType]) -> Expansion:
    """The layer as plain calls; `types` holds those of its operands.

    Raises `UnsupportedError` for variants: peepholes, clipping, sequence lengths, activations of
    other kinds.
    """
    if call.attributes.get("layout"):
        return _batch_first(call, types)
    _check_variant(call)
    layer = _Layer.of(call, types)
    maker = Maker(call)
    kinds = {"reverse": (True,), "bidirectional": (False, True)}
    directions = kinds.get(str(call.attributes.get("direction")), (False,))
    if len(directions) != layer.directions:
        raise ModelError(
            f"{call.label} has {len(directions)} directions, its weights have {layer.directions}"
        )
    runs = [_run(maker, layer, at, backward) for at, backward in enumerate(directions)]
    _outputs(maker, runs)
    return maker.expansion()


@dataclass(frozen=True, slots=True)
class _Layer:
    """Extents of a layer: `steps` and `samples` of its input, `gates` times `hidden` weights."""

    steps: int
    samples: int
    directions: int
    gates: int
    hidden: int
    dtype: DType

    @classmethod
    def of(cls, call: Call, types: Mapping[str, TensorType]) -> _Layer:
        """The extents, checked against each other."""
        given, weights, recurrent = (types[name].shape for name in call.inputs[:3])
        if not len(given) == len(weights) == len(recurrent) == 3:
            raise ModelError(f"{call.label}: input and weights must have three dims each")
        gates, hidden = _GATES[call.op], recurrent[2]
        expected = (weights[0], gates * hidden, given[2])
        if weights != expected or recurrent[:2] != weights[:2]:
            raise ModelError(
                f"{call.label}: weights are {list(weights)} and {list(recurrent)}, "
                f"the input needs {list(expected)}"
            )
        if given[0] > _MAX_STEPS:
            raise UnsupportedError(
                f"{call.label} has {given[0]} steps, the limit is {_MAX_STEPS}; "
                "bind a shorter sequence"
            )
        return cls(given[0], given[1], weights[0], gates, hidden, types[call.inputs[0]].dtype)


@dataclass(frozen=True, slots=True)
class _Run:
    """One direction's results: the hidden value of each step in time order, and the last state."""

    hidden: tuple[str, ...]
    last: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Cell:
    """What each step of a direction needs: recurrent weights, turned for a product from the right.

    A GRU has two parts of each, for its gates and for its new value. `biases` are the recurrent
    ones, empty when there are none or they are already in the steps' inputs.
    """

    layer: _Layer
    weights: tuple[str, ...]
    biases: tuple[str, ...]
    reset_after: bool


def _batch_first(call: Call, types: Mapping[str, TensorType]) -> Expansion:
    """The layer with its samples first (layout 1): turned before and after."""
    maker = Maker(call)
    turned: dict[str, TensorType] = {}
    inputs = list(call.inputs)
    for at in (0, 5, 6):
        if any(call.inputs[at : at + 1]):
            inputs[at] = maker.op("Transpose", (call.inputs[at],), attributes={"perm": (1, 0, 2)})
            first, second, last = types[call.inputs[at]].shape
            turned[inputs[at]] = TensorType(types[call.inputs[at]].dtype, (second, first, last))
    before = maker.expansion()
    attributes = {name: value for name, value in call.attributes.items() if name != "layout"}
    outputs = tuple(f"{name}/steps_first" if name else "" for name in call.outputs)
    inner = replace(call, inputs=tuple(inputs), outputs=outputs, attributes=attributes)
    layer = unrolled(inner, {**types, **turned})
    maker = Maker(call)
    # [steps, directions, samples, hidden] to [samples, steps, directions, hidden]; the states
    # have no steps.
    for at, name in enumerate(call.outputs):
        if name:
            perm = (1, 0, 2) if at else (2, 0, 1, 3)
            maker.op("Transpose", (outputs[at],), name, {"perm": perm})
    after = maker.expansion()
    return Expansion(
        (*before.calls, *layer.calls, *after.calls), {**before.constants, **layer.constants}
    )


def _check_variant(call: Call) -> None:
    operands = {4: "sequence lengths", 7: "peepholes"}
    found = [text for at, text in operands.items() if any(call.inputs[at : at + 1])]
    found += [name for name in ("clip", "input_forget") if call.attributes.get(name)]
    activations = call.attributes.get("activations", ())
    usual = _ACTIVATIONS[call.op] * 2
    if isinstance(activations, tuple) and activations != usual[: len(activations)]:
        found.append("activations " + ", ".join(map(str, activations)))
    if found:
        raise UnsupportedError(
            f"{call.label} with {', '.join(found)} is not supported; export the plain layer, or "
            "run it on the host"
        )


def _run(maker: Maker, layer: _Layer, direction: int, backward: bool) -> _Run:
    inputs, cell = _prepared(maker, layer, direction)
    state = (_state(maker, layer, 5, direction), _state(maker, layer, 6, direction))
    hidden = [""] * layer.steps
    order = range(layer.steps)
    for step in reversed(order) if backward else order:
        index = maker.constant(np.asarray(step, dtype=np.int64))
        given = maker.op("Gather", (inputs, index), attributes={"axis": 0})
        state = _STEPS[maker.call.op](maker, cell, given, state)
        hidden[step] = state[0]
    return _Run(tuple(hidden), state)


def _prepared(maker: Maker, layer: _Layer, direction: int) -> tuple[str, _Cell]:
    """The weighted inputs of all steps at once, [steps, samples, gates x hidden], and the cell."""
    call, size = maker.call, layer.gates * layer.hidden
    weights = maker.op("Transpose", (_of(maker, layer, call.inputs[1], direction),))
    recurrent = maker.op("Transpose", (_of(maker, layer, call.inputs[2], direction),))
    inputs = maker.op("MatMul", (call.inputs[0], weights))
    bias = recurrent_bias = ""
    if any(call.inputs[3:4]):
        biases = _of(maker, layer, call.inputs[3], direction)
        bias, recurrent_bias = maker.split(biases, (size, size), 0)
    if bias and call.op != "GRU":
        # Both biases are added to the same sum, so one addition for all steps does.
        bias, recurrent_bias = maker.op("Add", (bias, recurrent_bias)), ""
    inputs = maker.op("Add", (inputs, bias)) if bias else inputs
    return inputs, _cell(maker, layer, recurrent, recurrent_bias)


def _cell(maker: Maker, layer: _Layer, recurrent: str, bias: str) -> _Cell:
    reset_after = maker.call.attributes.get("linear_before_reset", 0) == 1
    if maker.call.op != "GRU":
        return _Cell(layer, (recurrent,), (bias,), reset_after)
    sizes = (2 * layer.hidden, layer.hidden)
    biases = maker.split(bias, sizes, 0) if bias else ("", "")
    return _Cell(layer, maker.split(recurrent, sizes, 1), biases, reset_after)


def _of(maker: Maker, layer: _Layer, value: str, direction: int) -> str:
    """One direction's part of a value whose first axis are the directions."""
    if layer.directions > 1:
        value = maker.split(value, (1,) * layer.directions, 0)[direction]
    return maker.squeeze(value, 0)


def _state(maker: Maker, layer: _Layer, operand: int, direction: int) -> str:
    given = maker.call.inputs[operand : operand + 1]
    if any(given):
        return _of(maker, layer, given[0], direction)
    shape = (layer.samples, layer.hidden)
    return maker.constant(np.zeros(shape, dtype=numpy_dtype(layer.dtype)))


State = tuple[str, str]


def _lstm(maker: Maker, cell: _Cell, given: str, state: State) -> State:
    hidden, memory = state
    total = maker.op("Add", (given, maker.op("MatMul", (hidden, cell.weights[0]))))
    parts = maker.split(total, (cell.layer.hidden,) * 4, 1)
    enter, leave, keep = (maker.op("Sigmoid", (part,)) for part in parts[:3])
    entering = maker.op("Mul", (enter, maker.op("Tanh", (parts[3],))))
    memory = maker.op("Add", (maker.op("Mul", (keep, memory)), entering))
    return maker.op("Mul", (leave, maker.op("Tanh", (memory,)))), memory


def _gru(maker: Maker, cell: _Cell, given: str, state: State) -> State:
    hidden, size = state[0], cell.layer.hidden
    parts = maker.split(given, (2 * size, size), 1)
    weights, biases = cell.weights, cell.biases
    gates = maker.op("Add", (parts[0], _affine(maker, hidden, weights[0], biases[0])))
    update, reset = maker.split(maker.op("Sigmoid", (gates,)), (size, size), 1)
    if cell.reset_after:
        past = maker.op("Mul", (reset, _affine(maker, hidden, weights[1], biases[1])))
    else:
        past = _affine(maker, maker.op("Mul", (reset, hidden)), weights[1], biases[1])
    new = maker.op("Tanh", (maker.op("Add", (parts[1], past)),))
    change = maker.op("Mul", (update, maker.op("Sub", (hidden, new))))
    return maker.op("Add", (new, change)), ""


def _rnn(maker: Maker, cell: _Cell, given: str, state: State) -> State:
    past = maker.op("MatMul", (state[0], cell.weights[0]))
    return maker.op("Tanh", (maker.op("Add", (given, past)),)), ""


def _affine(maker: Maker, value: str, weights: str, bias: str) -> str:
    product = maker.op("MatMul", (value, weights))
    return maker.op("Add", (product, bias)) if bias else product


_STEPS: Mapping[str, Callable[[Maker, _Cell, str, State], State]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": _rnn,
}


def _outputs(maker: Maker, runs: list[_Run]) -> None:
    every, last_hidden, last_memory = (*maker.call.outputs, "", "")[:3]
    if every:
        # [steps, directions, samples, hidden]
        sequences = tuple(maker.stack(run.hidden, 0) for run in runs)
        maker.stack(sequences, 1, every)
    if last_hidden:
        maker.stack(tuple(run.last[0] for run in runs), 0, last_hidden)
    if last_memory:
        maker.stack(tuple(run.last[1] for run in runs), 0, last_memory)
