"""Which compilers and backends make a pair. The type checker is part of the test."""

from __future__ import annotations

from pathlib import Path

from configurator.toolchain import Toolchain, simulated
from runtime_sim.null import NullBackend
from tests.configurator.fakes import STD, FakeBackend, FakeCompiler


def test_a_matching_pair_is_taken_and_a_wrong_one_is_a_type_error() -> None:
    made = Toolchain(compiler=FakeCompiler(), backend=FakeBackend(), device=STD, timing_id="t")
    assert made.device is STD
    # `mypy --strict` reports an unused `type: ignore`, so this line fails the type check on the
    # day that the wrong pair is taken.
    Toolchain(  # type: ignore[misc]  # wrong on purpose
        compiler=FakeCompiler(), backend=NullBackend(STD), device=STD, timing_id="t"
    )


def test_the_simulated_pair_says_what_it_is(tmp_path: Path) -> None:
    made = simulated(STD, tmp_path)
    assert made.device is STD
    assert "" not in (made.compiler.version, made.backend.version, made.timing_id)
    assert made.backend.deterministic
    assert list(tmp_path.iterdir()) == []
