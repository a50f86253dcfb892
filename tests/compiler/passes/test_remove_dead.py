from __future__ import annotations

from compiler.passes.remove_dead import RemoveDead
from tests.compiler.passes.sketch import Sketch, checked, ops, unchanged


def test_what_no_output_needs_goes_with_its_constants_and_types() -> None:
    sketch = Sketch()
    x = sketch.input(2, 3)
    weight = sketch.random(3, 4)
    unused = sketch.node("MatMul", x, weight, shape=(2, 4))
    sketch.node("Relu", unused)
    y = sketch.node("Abs", x)
    graph = checked(RemoveDead(), sketch.graph(y)).graph
    assert ops(graph) == {"Abs": 1}
    assert not graph.constants
    assert set(graph.types) == {x, y}


def test_an_unused_constant_is_a_change() -> None:
    sketch = Sketch()
    y = sketch.node("Abs", sketch.input(2))
    sketch.random(5)
    assert checked(RemoveDead(), sketch.graph(y)).changed


def test_one_used_output_keeps_a_node() -> None:
    sketch = Sketch()
    parts = sketch.constant([1, 2])
    first = sketch.node("Split", sketch.input(3, 2), parts, shape=(1, 2), outputs=2, axis=0)
    sketch.types[f"{first}.1"] = sketch.types[first].__class__(sketch.types[first].dtype, (2, 2))
    graph = sketch.graph(sketch.node("Abs", f"{first}.1"))
    unchanged(RemoveDead(), graph)


def test_an_unused_input_stays() -> None:
    sketch = Sketch()
    x, unused = sketch.input(2), sketch.input(7)
    graph = RemoveDead().run(sketch.graph(sketch.node("Abs", x))).graph
    assert graph.inputs == (x, unused)
    assert unused in graph.types
