"""Rewrites of the graph that keep its values and lower its cost on the device."""

from compiler.passes.base import Pass, PassResult
from compiler.passes.pipeline import PIPELINE, optimize

__all__ = ["PIPELINE", "Pass", "PassResult", "optimize"]
