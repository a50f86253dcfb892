"""Channels, groups and kernels of convolutions, which ONNX's shape inference leaves unchecked."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.errors import ModelError
from compiler.frontend.calls import Call
from compiler.ir.graph import TensorType

# The operand that holds the weights, by operator (ONNX operators).
_WEIGHTS = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "QLinearConv": 3}


def check_groups(call: Call, types: Mapping[str, TensorType]) -> None:
    """Raise `ModelError` where data and weights of a convolution disagree."""
    at = _WEIGHTS.get(call.op)
    if at is None or call.domain or len(call.inputs) <= at:
        return
    data, weights = types[call.inputs[0]].shape, types[call.inputs[at]].shape
    if len(data) < 3 or len(weights) != len(data):
        return  # The shape inference tells of these.
    _check_channels(call, data[1], weights)
    kernel = call.attributes.get("kernel_shape")
    if isinstance(kernel, tuple) and kernel != weights[2:]:
        raise ModelError(
            f"{call.label} declares kernel {list(kernel)}, its weights have {list(weights[2:])}"
        )


def _check_channels(call: Call, channels: int, weights: tuple[int, ...]) -> None:
    groups = call.attributes.get("group", 1)
    if not isinstance(groups, int) or groups < 1 or channels % groups or weights[0] % groups:
        raise ModelError(
            f"{call.label} has {groups} groups, which do not divide {channels} channels and "
            f"{weights[0]} rows of weights"
        )
    read = weights[0] if call.op == "ConvTranspose" else weights[1] * groups
    if read != channels:
        raise ModelError(
            f"{call.label} gets {channels} channels, its weights take {read}; export it anew"
        )
