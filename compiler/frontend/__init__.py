"""ONNX in, a graph with concrete shapes out: the only place that knows the file format."""

from __future__ import annotations

from compiler.frontend.importer import bind
from compiler.frontend.model import OnnxModel, batch_symbol_of, load_model
from compiler.frontend.supported import SupportedOperator, supported_operators

__all__ = [
    "OnnxModel",
    "SupportedOperator",
    "batch_symbol_of",
    "bind",
    "load_model",
    "supported_operators",
]
