"""Programs and graphs for the tests of containers, and when two of them are equal."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from compiler.ir.dtypes import DType
from compiler.ir.graph import Graph, value_of
from compiler.options import CompileOptions, Precision
from compiler.program import Binding, Layer, MemoryUse, Program, Tasks, Tiles
from compiler.target import Sku
from tests.oracles.programs import ProgramBuilder, programs

MINIMAL = Path(__file__).parent / "data" / "minimal_accepted.qpc"

_TEXTS = st.text(max_size=12)
_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_SIZES = st.integers(0, 2**40)
_EXTENTS = st.lists(st.integers(0, 9), max_size=5).map(tuple)
_HOST_TYPES = [dtype for dtype in DType if dtype is not DType.STRING]


@st.composite
def full_programs(draw: st.DrawFn) -> Program:
    """Any legal tasks, with every other field of a program drawn as well."""
    program = draw(programs(max_tasks=12))
    count = len(program.layers)
    layers = draw(st.lists(_layers(), min_size=count, max_size=6))
    return replace(
        program,
        model_name=draw(_TEXTS),
        sku=draw(st.sampled_from(Sku)),
        options=draw(_options(program.options)),
        chosen=tuple(draw(st.lists(st.tuples(_TEXTS, _TEXTS), max_size=3))),
        inputs=tuple(draw(st.lists(_bindings(), max_size=4))),
        outputs=tuple(draw(st.lists(_bindings(), max_size=4))),
        memory=MemoryUse(draw(_SIZES), draw(_SIZES), draw(_SIZES)),
        layers=tuple(layers),
        tiles=draw(_tiles(len(program.tasks))),
    )


@st.composite
def _options(draw: st.DrawFn, base: CompileOptions) -> CompileOptions:
    return replace(
        base,
        ols=draw(st.none() | st.integers(1, 9)),
        precision=draw(st.sampled_from(Precision)),
        symbols=tuple(draw(st.lists(st.tuples(_TEXTS, st.integers(1, 99)), max_size=2))),
        input_shapes=tuple(draw(st.lists(st.tuples(_TEXTS, _EXTENTS), max_size=2))),
        vtcm_working_set_limit_ratio=draw(st.none() | st.floats(0.01, 1)),
        combine_inputs=draw(st.none() | st.booleans()),
        combine_outputs=draw(st.none() | st.booleans()),
    )


@st.composite
def _bindings(draw: st.DrawFn) -> Binding:
    dtype, shape = draw(st.sampled_from(_HOST_TYPES)), draw(_EXTENTS)
    return Binding(draw(_NAMES), dtype, shape, int(np.prod(shape)) * dtype.size_bytes)


def _layers() -> st.SearchStrategy[Layer]:
    return st.builds(
        Layer,
        name=_TEXTS,
        op=_TEXTS,
        output_shape=_EXTENTS,
        macs=_SIZES,
        weight_bytes=_SIZES,
        output_bytes=_SIZES,
        spill_bytes=_SIZES,
        tiles=_SIZES,
        split=_TEXTS,
        why=_TEXTS,
        nodes=st.lists(_TEXTS, max_size=2).map(tuple),
        sources=st.lists(st.tuples(_TEXTS, _TEXTS), max_size=2).map(tuple),
    )


@st.composite
def _tiles(draw: st.DrawFn, tasks: int) -> Tiles:
    count = draw(st.integers(0, tasks))
    columns = [np.arange(count, dtype=np.int32)]
    seed = draw(st.integers(0, 9))
    columns += list(np.random.default_rng(seed).integers(0, 99, (4, count), dtype=np.int32))
    return Tiles(*columns)


def equivalent_of_the_minimal_network() -> Program:
    builder = ProgramBuilder(num_cores=2)
    builder.matmul(1, 1, 1)
    return replace(
        builder.build(),
        model_name="minimal",
        options=CompileOptions(num_cores=2),
        inputs=(Binding("input", DType.FLOAT32, (1, 3, 8, 8), 768),),
        outputs=(Binding("output", DType.FLOAT32, (1, 10), 40),),
    )


def assert_same_program(left: Program, right: Program) -> None:
    for field in fields(Program):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, Tasks | Tiles):
            for column in fields(one):
                a, b = getattr(one, column.name), getattr(other, column.name)
                assert a.dtype == b.dtype
                assert np.array_equal(a, b)
        else:
            assert one == other, field.name


def assert_same_graph(left: Graph, right: Graph) -> None:
    """All but the values of large constants, which a container rounds."""
    assert left.name == right.name
    assert left.batch_size == right.batch_size
    assert (left.inputs, left.outputs) == (right.inputs, right.outputs)
    assert dict(left.types) == dict(right.types)
    assert list(left.constants) == list(right.constants)
    assert len(left.nodes) == len(right.nodes)
    for one, other in zip(left.nodes, right.nodes, strict=True):
        assert replace(one, attributes={}) == replace(other, attributes={})
        assert list(one.attributes) == list(other.attributes)
        for name, value in one.attributes.items():
            assert_same_value(value, other.attributes[name])


def assert_same_value(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tolist() == right.tolist()
    else:
        assert left == right


def constant_values(graph: Graph) -> dict[str, Any]:
    return {name: value_of(constant) for name, constant in graph.constants.items()}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def forge(head: Any, value: Any, data: st.DataObject) -> None:
    """Put `value` at any place of a JSON document."""
    while True:
        keys = list(head) if isinstance(head, dict) else list(range(len(head)))
        key = keys[data.draw(st.integers(0, len(keys) - 1))]
        inner = head[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            head[key] = value
            return
        head = inner
