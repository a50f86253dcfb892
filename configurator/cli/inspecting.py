"""The `inspect` command: what a QPC holds."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from configurator.cli import arguments as args
from configurator.errors import UsageError
from configurator.tables import grid, one_line

if TYPE_CHECKING:
    from compiler.program import Program
    from compiler.qpc.inspect import Inspection
    from compiler.qpc.networkdesc import IoBinding

Rows = list[list[str]]


def inspect_command(
    qpc: Annotated[Path, typer.Argument(metavar="QPC", help="A programqpc.bin or its folder.")],
    json_: args.Json = False,
) -> None:
    """Show what a QPC holds: segments, bindings, options, memory."""
    from compiler.errors import QpcError
    from compiler.qpc.inspect import inspect

    try:
        found = inspect(qpc)
    except QpcError as error:
        raise UsageError(str(error)) from error
    print(json.dumps(document(found), indent=2, allow_nan=False) if json_ else text(found))


def document(found: Inspection) -> dict[str, object]:
    """What `inspect --json` prints; what only our own containers hold is null in others."""
    descriptor, program = found.descriptor, found.program
    return {
        "path": str(found.path),
        "size_bytes": found.size_bytes,
        "segments": [
            {
                "name": entry.name,
                "offset": entry.start,
                "size_bytes": entry.size,
                "static_bytes": entry.static_bytes,
            }
            for entry in found.segments
        ],
        "network": {
            "name": descriptor.network_name,
            "version": f"{descriptor.major_version}.{descriptor.minor_version}",
            "cores": descriptor.num_cores,
            "batch_size": descriptor.batch_size,
            "threads": descriptor.num_threads,
            "hvx_threads": descriptor.num_hvx_threads,
        },
        "inputs": [_binding_document(found, binding) for binding in descriptor.inputs],
        "outputs": [_binding_document(found, binding) for binding in descriptor.outputs],
        "specializations": [
            dict(zip(_binding_names(found), shapes, strict=False))
            for shapes in _allowed_shapes(found)
        ],
        "memory": _memory_document(found),
        "program": None if program is None else _program_document(program),
        "graph": None
        if found.graph is None
        else {"nodes": len(found.graph.nodes), "constants": len(found.graph.constants)},
        "cores": [asdict(core) for core in found.cores],
    }


def _binding_document(found: Inspection, binding: IoBinding) -> dict[str, object]:
    shown = binding.io_initial
    copies = [step.copy_dma_buffer for step in binding.transformseq if step.copy_dma_buffer]
    return {
        "name": binding.name,
        "type": _type_name(found, binding),
        "shape": [] if shown is None else list(shown.dims),
        "size_bytes": _size_bytes(binding),
        "buffer": copies[0].buffer_num if copies else None,
        "offset_bytes": copies[0].offset if copies else None,
    }


def _binding_names(found: Inspection) -> list[str]:
    """Of the inputs, then of the outputs, in the order of `_allowed_shapes`."""
    return [one.name for one in (*found.descriptor.inputs, *found.descriptor.outputs)]


def _allowed_shapes(found: Inspection) -> list[list[list[int]]]:
    """The shapes of all bindings in each specialization; none where the network has only one."""
    return [[list(one.dims) for one in each.shapes] for each in found.descriptor.allowed_shapes]


def _type_name(found: Inspection, binding: IoBinding) -> str:
    """The model's type where it is known; the descriptor lacks some."""
    if found.program is not None:
        own = (*found.program.inputs, *found.program.outputs)
        names = {one.name: one.dtype.value for one in own}
        if binding.name in names:
            return names[binding.name]
    return "" if binding.io_initial is None else binding.io_initial.type.name.lower()


def _size_bytes(binding: IoBinding) -> int:
    from compiler.qpc.networkdesc import ELEMENT_BYTES

    if binding.io_initial is None:
        return 0
    elements = prod(extent for extent in binding.io_initial.dims if extent)
    return elements * ELEMENT_BYTES[binding.io_initial.type]


def _memory_document(found: Inspection) -> dict[str, object]:
    metadata, program = found.metadata, found.program
    return {
        "static_constants_bytes": found.static_constants_bytes,
        "dynamic_constants_bytes": found.dynamic_constants_bytes,
        "shared_ddr_bytes": metadata.static_shared_ddr_size + metadata.dynamic_shared_ddr_size,
        "vtcm_bytes_per_core": metadata.vtcm_size,
        "vtcm_peak_bytes_per_core": None if program is None else program.memory.vtcm_peak_bytes,
        "l2tcm_bytes_per_core": metadata.l2tcm_size,
    }


def _program_document(program: Program) -> dict[str, object]:
    return {
        "model": program.model_name,
        "model_sha256": program.model_sha256,
        "compiler_version": program.compiler_version,
        "sku": program.sku.value,
        "options": _options(program),
        "chosen": dict(program.chosen),
        "layers": len(program.layers),
        "tasks": len(program.tasks),
        "constants_bytes": program.memory.constants_bytes,
        "ddr_per_instance_bytes": program.memory.ddr_per_instance_bytes,
    }


def _options(program: Program) -> dict[str, object]:
    values = {
        field.name: getattr(program.options, field.name) for field in fields(program.options)
    }
    pairs = {name: dict(values[name]) for name in ("symbols", "input_shapes")}
    return {**values, **pairs, "precision": program.options.precision.value}


def text(found: Inspection) -> str:
    """What `inspect` prints."""
    descriptor = found.descriptor
    head = (
        f"{found.path}: {found.size_bytes:,} bytes; network {descriptor.network_name}, "
        f"{descriptor.num_cores} cores, batch size {descriptor.batch_size}"
    )
    parts = [one_line(head), _segments_text(found), _bindings_text(found)]
    if found.descriptor.allowed_shapes:
        parts.append(_specializations_text(found))
    parts.append(_memory_text(found))
    if found.program is None:
        parts.append("No program of this compiler: only a real card can run it.")
    else:
        parts += [_program_text(found, found.program), _cores_text(found)]
    return "\n\n".join(parts)


def _segments_text(found: Inspection) -> str:
    rows = [[entry.name, f"{entry.start:,}", f"{entry.size:,}"] for entry in found.segments]
    return grid([["segment", "offset", "bytes"], *rows])


def _bindings_text(found: Inspection) -> str:
    rows: Rows = []
    for kind, bindings in (
        ("input", found.descriptor.inputs),
        ("output", found.descriptor.outputs),
    ):
        for binding in bindings:
            shown = binding.io_initial
            shape = "x".join(map(str, shown.dims)) if shown else ""
            size = f"{_size_bytes(binding):,}"
            rows.append([kind, binding.name, _type_name(found, binding), shape or "scalar", size])
    return grid([["", "name", "type", "shape", "bytes"], *rows], left=(0, 1, 2, 3))


def _specializations_text(found: Inspection) -> str:
    rows = [
        [str(number), *("x".join(map(str, shape)) or "scalar" for shape in shapes)]
        for number, shapes in enumerate(_allowed_shapes(found))
    ]
    header = ["specialization", *_binding_names(found)]
    width = max(len(header), *map(len, rows))
    padded = [[*row, *[""] * (width - len(row))] for row in (header, *rows)]
    below = "What else is shown is of specialization 0."
    return f"{grid(padded, left=tuple(range(1, width)))}\n{below}"


def _memory_text(found: Inspection) -> str:
    rows = [
        [name.removesuffix("_per_core").replace("_bytes", "").replace("_", " "), f"{value:,}"]
        for name, value in _memory_document(found).items()
        if isinstance(value, int)
    ]
    return grid([["memory (VTCM, L2TCM: of each core)", "bytes"], *rows])


def _program_text(found: Inspection, program: Program) -> str:
    options = {**_options(program), **{f"{name} chosen": v for name, v in program.chosen}}
    rows = [[name.replace("_", " "), _shown(value)] for name, value in options.items()]
    executable = "no constants: can be simulated, not executed"
    if found.graph is not None:
        executable = f"{len(found.graph.nodes):,} nodes, {len(found.graph.constants):,} constants"
    made = f"{program.model_name} for {program.sku.value}, compiler {program.compiler_version}"
    counts = f"{len(program.layers):,} layers, {len(program.tasks):,} tasks; {executable}"
    return "\n".join([one_line(made), counts, "", grid([["option", ""], *rows], left=(0, 1))])


def _shown(value: object) -> str:
    if value is None:
        return "compiler's choice"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value not in ((), {}) else "-"


def _cores_text(found: Inspection) -> str:
    header = ["core", "tasks", "MACs", "vector elements", "DDR read", "DDR written", "sent"]
    rows = [[f"{value:,}" for value in asdict(core).values()] for core in found.cores]
    return grid([header, *rows], left=())
