"""The zoo's table at a reduced size: the models of the repository at two points each."""

from __future__ import annotations

from studies.zoo import MODELS, rows_of


def test_every_model_of_the_repository_compiles_and_counts() -> None:
    rows = rows_of(sorted(MODELS.glob("*.onnx")), [1, 7], [1], (("seq_len", 32),))
    assert len(rows) == 2 * len(list(MODELS.glob("*.onnx")))
    for row in rows:
        assert not row.refused
        assert row.tasks > 0
        assert row.ddr_bytes > 0
    one, seven = {row.model: row for row in rows[::2]}, {row.model: row for row in rows[1::2]}
    for model, row in one.items():
        # Seven cores share the products; whole blocks and uneven shares cost something.
        assert row.hmx_cycles / 7 <= seven[model].hmx_cycles < row.hmx_cycles
