"""The latency file of one activation: four lines of text, a header, and a row an inference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from configurator.qaic_runner.stages import I64, Stages

_NS_PER_US, _NS_PER_S = 1e3, 1e9


def latency_text(title: str, numbers: I64, stages: Stages, device_batch_size: int | None) -> str:
    """Rows of the inferences `numbers`, counted from 0; `stages` repeat over them.

    `device_batch_size` is the batch where the network was compiled with profiling: only then the
    device tells its times.
    """
    columns = dict(_columns(stages, device_batch_size))
    header = ",".join(["Sample", *columns])
    cells = np.array(list(columns.values()))[:, numbers % len(stages)].T
    rows = (",".join([str(n), *row]) for n, row in zip(numbers, cells, strict=True))
    return "\n".join([*_head(title), header, *rows]) + "\n"


def _head(title: str) -> tuple[str, ...]:
    return (
        title,
        "Simulated: the inferences of the steady state repeat.",
        "totalRoundtripTime is from the call to the end of post-processing;",
        "execTotal from the submission until the caller has the result. Us are microseconds.",
    )


def _columns(stages: Stages, batch_size: int | None) -> Iterator[tuple[str, list[str]]]:
    yield "queueDepth", [str(depth) for depth in stages.queue_depth]
    yield "numInfInQueue", [str(depth + 1) for depth in stages.queue_depth]
    if batch_size is not None:
        device = stages.device
        rates = batch_size * _NS_PER_S / np.maximum(device.execution, 1)
        yield "devInfPerSec", [f"{rate:.3f}" for rate in rates]
        yield "devExecUs", _us(device.execution)
        yield "devInWaitTimeUs", _us(device.input_wait)
        yield "devOutWaitTimeUs", _us(device.output_wait)
    yield "hostRoundTripUs", _us(stages.host_round_trip)
    yield "enqTimeUs", _us(stages.enqueue)
    yield "preProcTimeUs", _us(stages.prepare)
    yield "submitTimeUs", _us(stages.submit)
    yield "execTotalUs", _us(stages.exec_total)
    yield "exectoVcUs", _us(stages.to_channel)
    # Readers take the third column from the end, and the last: nothing may follow.
    yield "execToCompleteUs", _us(stages.to_complete)
    yield "postProcUs", _us(stages.finish)
    yield "totalRoundtripTimeUs", _us(stages.total)


def _us(spans_ns: I64) -> list[str]:
    return [f"{span / _NS_PER_US:.3f}" for span in spans_ns]
