"""What lies in each core's VTCM when: activations, weights, and what must wait in DDR.

All cores are treated like the fullest one. Activations stay in VTCM from the step that makes them
to the last that reads them, as long as they fit beside the weights of the step at hand; else the
one whose next use is farthest away goes to DDR and comes back before that use (Belady's rule). A
tensor that the step itself touches and that still does not fit streams through in tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import DoesNotFitError
from compiler.schedule.plan import PlannedStep
from compiler.schedule.steps import StepKind
from compiler.schedule.tiling import STREAM_BYTES

MIB = 1 << 20

RESIDENT_SHARE = 0.25
"""assumed: up to this share of VTCM, weights stay even if activations then spill; they are read at
least once an inference otherwise, activations only where they do not fit."""


@dataclass(frozen=True, slots=True)
class StepMemory:
    """One step's use of a core's VTCM.

    `reload` are tensors that come back from DDR whole before the step, `stream_in` those that
    come in tile by tile while it runs, `write_back` tells whether its output goes to DDR too and
    `keep_output` whether it stays in VTCM. `free_bytes` is what is left for weights.
    """

    reload: tuple[str, ...]
    stream_in: tuple[str, ...]
    write_back: bool
    keep_output: bool
    free_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Residency:
    """The memory plan of a program; with `weights_resident` no weight is read while it runs."""

    steps: tuple[StepMemory, ...]
    weights_resident: bool
    weights_bytes: int
    peak_bytes: int


def plan_residency(planned: tuple[PlannedStep, ...], vtcm_bytes: int) -> Residency:
    """Place everything in `vtcm_bytes` a core, or raise `DoesNotFitError` naming the step."""
    weights_bytes = sum(plan.core_weight_bytes for plan in planned)
    if weights_bytes < vtcm_bytes:
        spilling = weights_bytes <= vtcm_bytes * RESIDENT_SHARE
        steps = _Planner(planned, vtcm_bytes - weights_bytes, rings=False, spilling=spilling).run()
        if steps is not None:
            peak = weights_bytes + max(step.used_bytes for step in steps)
            return Residency(steps, True, weights_bytes, peak)
    streamed = _Planner(planned, vtcm_bytes, rings=True, spilling=True).run()
    assert streamed is not None
    peak = max(m.used_bytes + _ring_bytes(p) for m, p in zip(streamed, planned, strict=True))
    return Residency(streamed, False, weights_bytes, min(peak, vtcm_bytes))


def _ring_bytes(plan: PlannedStep) -> int:
    """Room that a step's weights need at least: two tiles of them, or all if that is less."""
    return min(2 * plan.chunk_bytes, plan.core_weight_bytes)


class _Planner:
    """One walk over the steps.

    With `rings` room is kept for the weights of the step at hand; without `spilling` the walk
    gives up where an activation would have to go to DDR.
    """

    def __init__(
        self, planned: tuple[PlannedStep, ...], room_bytes: int, *, rings: bool, spilling: bool
    ) -> None:
        self.planned = planned
        self.room_bytes = room_bytes
        self.rings = rings
        self.spilling = spilling
        self.uses: dict[str, list[int]] = {}
        for index, plan in enumerate(planned):
            for operand in plan.step.operands:
                self.uses.setdefault(operand.tensor, []).append(index)
        self.share = {plan.step.output.name: plan.core_output_bytes for plan in planned}
        self.resident: set[str] = set()
        self.in_ddr: set[str] = set()
        self.maker = {plan.step.output.name: i for i, plan in enumerate(planned)}
        self.written: set[int] = set()

    def run(self) -> tuple[StepMemory, ...] | None:
        rows = []
        for index, plan in enumerate(self.planned):
            row = self._step(index, plan)
            if row is None:
                return None
            rows.append(row)
        return tuple(
            StepMemory(
                row.reload,
                row.stream_in,
                row.write_back or index in self.written,
                row.keep_output,
                row.free_bytes,
                row.used_bytes,
            )
            for index, row in enumerate(rows)
        )

    def _step(self, index: int, plan: PlannedStep) -> StepMemory | None:
        touched = {operand.tensor for operand in plan.step.operands}
        output = plan.step.output.name
        reload = {name for name in touched if name not in self.resident}
        if reload and not self.spilling:
            return None
        self.resident |= touched | {output}
        extra = plan.core_gather_bytes + (_ring_bytes(plan) if self.rings else 0)
        self._evict(index, touched | {output}, extra)
        streamed = self._stream(plan, touched | {output}, extra)
        if streamed is None or (streamed and not self.spilling):
            return None
        used = self._used() + plan.core_gather_bytes + self._tiles_bytes(plan, streamed)
        row = StepMemory(
            tuple(sorted(reload - streamed)),
            tuple(sorted(streamed - {output})),
            output in streamed,
            output not in streamed,
            max(self.room_bytes - used, plan.chunk_bytes),
            used,
        )
        if output in streamed and plan.step.kind is not StepKind.OUTPUT:
            self.in_ddr.add(output)
        self._forget(index)
        return row

    def _used(self) -> int:
        return sum(self.share[name] for name in self.resident)

    def _evict(self, index: int, touched: set[str], extra: int) -> None:
        if not self.spilling:
            return
        while self._used() + extra > self.room_bytes:
            idle = [n for n in self.resident - touched if self.share[n]]
            if not idle:
                return
            victim = max(idle, key=lambda name: (self._next_use(name, index), name))
            self.resident.discard(victim)
            if victim not in self.in_ddr:
                self.in_ddr.add(victim)
                self.written.add(self.maker[victim])

    def _stream(self, plan: PlannedStep, touched: set[str], extra: int) -> set[str] | None:
        """Tensors of this step that only fit in tiles, largest first."""
        streamed: set[str] = set()
        while self._used() + extra + self._tiles_bytes(plan, streamed) > self.room_bytes:
            whole = [name for name in touched - streamed if self.share[name]]
            if not whole:
                if self.rings:
                    raise self._too_big(plan, extra + self._tiles_bytes(plan, streamed))
                return None
            largest = max(whole, key=lambda name: (self.share[name], name))
            streamed.add(largest)
            self.resident.discard(largest)
            self._must_be_in_ddr(largest, plan)
        return streamed

    def _must_be_in_ddr(self, name: str, plan: PlannedStep) -> None:
        if name not in self.in_ddr and name != plan.step.output.name:
            self.in_ddr.add(name)
            self.written.add(self.maker[name])

    def _tiles_bytes(self, plan: PlannedStep, streamed: set[str]) -> int:
        """Two tiles of each streamed tensor, so that one moves while the other is worked on."""
        return sum(2 * min(self.share[name], STREAM_BYTES) for name in streamed)

    def _too_big(self, plan: PlannedStep, needed_bytes: int) -> DoesNotFitError:
        return DoesNotFitError(
            f"{plan.step.name} ({plan.step.op}): needs {needed_bytes / MIB:.1f} MiB of VTCM per "
            f"NSP, has {self.room_bytes / MIB:.1f} MiB; raise cores or mos, or lower batch size"
        )

    def _next_use(self, name: str, index: int) -> int:
        return next((use for use in self.uses.get(name, []) if use > index), len(self.planned))

    def _forget(self, index: int) -> None:
        dead = {name for name in self.resident if self._next_use(name, index) == len(self.planned)}
        self.resident -= dead
