"""What a user chooses about a run, and whether a program and a device allow it."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.target import DeviceSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The run-time knobs.

    `instances`: activations of the program side by side. `set_size`: inferences that each
    instance has outstanding. `inferences`: completed inferences an instance must show after its
    warm-up before the run ends. `threads_per_queue`: host threads of each instance.
    """

    instances: int
    set_size: int = 10
    inferences: int = 10
    threads_per_queue: int = 4


def violations(options: RunOptions, num_cores: int, device: DeviceSpec) -> tuple[str, ...]:
    """Why `options` cannot run a program of `num_cores` on `device`; empty when they can."""
    found = []
    if options.instances < 1:
        found.append(f"instances is {options.instances}, must be 1 or more")
    if options.set_size < 1:
        found.append(f"set size is {options.set_size}, must be 1 or more")
    if options.inferences < 1:
        found.append(f"inferences is {options.inferences}, must be 1 or more")
    if options.threads_per_queue < 1:
        found.append(f"threads per queue is {options.threads_per_queue}, must be 1 or more")
    if options.instances * num_cores > device.nsps:
        found.append(
            f"{num_cores} cores x {options.instances} instances = "
            f"{num_cores * options.instances}, {device.sku.value} has {device.nsps} NSPs; "
            "lower cores or instances"
        )
    return tuple(found)
