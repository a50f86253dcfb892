"""The interval is the record's, and what was not calibrated is said."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from compiler.program import Program, VectorOp
from compiler.target import Sku
from configurator.trust import trust_in
from runtime_sim.timing import CALIBRATED_FILE
from tests.oracles.programs import ProgramBuilder


def program(op: VectorOp = VectorOp.ADD, sku: Sku = Sku.STD) -> Program:
    builder = ProgramBuilder(sku=sku)
    builder.matmul(32, 32, 32)
    builder.vector(1_000, op)
    return builder.build()


@pytest.mark.parametrize("set_size", [1, 4])
def test_the_interval_holds_most_of_the_rows_of_its_kind(set_size: int) -> None:
    """Counted again, from the residuals of the record: families count alike, so roughly 80 %."""
    found = trust_in(program(), set_size, 1000.0)
    assert 0 < found.low_ips < 1000 < found.high_ips
    assert found.far == ()
    document = json.loads(CALIBRATED_FILE.read_text("utf-8"))
    ratios = np.exp([-row["rate"] for row in document["residuals"] if row["rate"] is not None])
    inside = np.mean((1000 * ratios >= found.low_ips) & (1000 * ratios <= found.high_ips))
    assert inside > 0.75


def test_what_was_not_calibrated_is_said() -> None:
    assert trust_in(program(sku=Sku.ULTRA), 4, 1.0).far == (f"card {Sku.ULTRA.value}",)
    assert trust_in(program(VectorOp.RESIZE), 4, 1.0).far == ("much resize work",)
    base = program()
    packed = replace(base, options=replace(base.options, mxfp6_matmul=True))
    assert trust_in(packed, 4, 1.0).far == ("6-bit weights",)
