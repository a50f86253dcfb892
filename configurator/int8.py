"""How a model is quantised; free of heavy imports, for the command line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Method(Enum):
    """How the range of a tensor follows from its samples."""

    MINMAX = "minmax"
    ENTROPY = "entropy"
    PERCENTILE = "percentile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to quantise.

    `exclude_nodes` and `exclude_ops` name nodes and operators that stay in fp16. `percentile` is
    the share of values (in percent) inside the range, for that method. `per_channel` gives each
    output channel of constant weights a scale of its own; `None`: where the model's opset allows.
    """

    method: Method = Method.MINMAX
    percentile: float = 99.999
    per_channel: bool | None = None
    exclude_nodes: tuple[str, ...] = ()
    exclude_ops: tuple[str, ...] = ()
