"""What fp16 loses of constants, against numpy's own conversion."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, Constant, Graph, TensorType
from configurator import ranges

FLOATS = hnp.arrays(
    np.float32,
    st.integers(0, 40),
    elements=st.one_of(
        st.floats(width=32),
        st.floats(-(2.0**-20), 2.0**-20, width=32),
        st.floats(65000, 66000, width=32),
    ),
)


def graph_of(values: Array, dtype: DType = DType.FLOAT32) -> Graph:
    type_ = TensorType(dtype, values.shape)
    constant = Constant(type_, lambda: values)
    return Graph(
        "g",
        (),
        (),
        (),
        MappingProxyType({"c": type_}),
        MappingProxyType({"c": constant}),
        1,
    )


@given(values=FLOATS, piece=st.integers(1, 50))
def test_counts_are_those_of_the_conversion(values: Array, piece: int) -> None:
    with np.errstate(over="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "_PIECE", piece)
        half = values.astype(np.float16)
        found = list(ranges.fp16_losses(graph_of(values)))
    underflows = int(np.sum((half == 0) & (values != 0)))
    overflows = int(np.sum(np.isinf(half) & np.isfinite(values)))
    expected = [ranges.Losses("c", underflows, overflows, values.size)]
    assert found == (expected if underflows or overflows else [])


def test_the_ends_of_the_range() -> None:
    kept = np.array([65504.0, 65519.99, 2.0**-24, 2.0**-25 * 1.001, np.inf, np.nan, 0.0])
    assert not list(ranges.fp16_losses(graph_of(kept, DType.FLOAT64)))
    lost = np.array([65520.0, -65520.0, 2.0**-25, 1.0])
    (found,) = ranges.fp16_losses(graph_of(lost, DType.FLOAT64))
    assert str(found) == (
        "constant c: 1 of 4 values underflow to 0, "
        "2 of 4 values overflow, clipped to 65504 in fp16"
    )


def test_integers_are_not_looked_at() -> None:
    assert not list(ranges.fp16_losses(graph_of(np.array([10**6]), DType.INT64)))
