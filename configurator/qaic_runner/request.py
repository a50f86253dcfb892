"""Options as what is to be run, printed and written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.target import Sku
from configurator.card_run import DEFAULT_INFERENCES, Amount
from configurator.errors import UsageError
from configurator.qaic_runner.flags import SAMPLING
from configurator.vendor_cli.card import sku_named
from configurator.vendor_cli.flag import Effect
from configurator.vendor_cli.line import CommandLine
from runtime_sim.options import RunOptions

_MS_PER_S = 1e3
_WRITES = ("--write-output-dir", "--write-output-start-iter", "--write-output-num-samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Profiling by time: seconds from the start, `None` to the end; one of `stride` is taken."""

    delay_s: float
    duration_s: float | None
    stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is measured of each activation and written to `folder`; inferences count from 0."""

    kinds: tuple[str, ...]
    first: int
    most: int
    stream: Stream
    folder: Path

    def asks_for(self, kinds: tuple[str, ...]) -> bool:
        """Whether one of them is asked for."""
        return any(kind in self.kinds for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Outputs of `count` inferences of each activation, from `first` on, go to `folder`."""

    folder: Path
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One command line that runs. `sku` is `None` for the card that it was compiled for."""

    directory: Path
    qid: int
    sku: Sku | None
    options: RunOptions
    amount: Amount
    inputs: tuple[Path, ...]
    unbound: bool
    compared: tuple[Path, ...]
    writing: Writing | None
    profile: Profile
    verbose: bool
    notes: tuple[str, ...]


def request_of(given: CommandLine, environment: Mapping[str, str] = os.environ) -> Request:
    """What the options ask for; raises `UsageError` where they cannot be followed."""
    _refuse(given)
    directory = given.text("-t")
    if directory is None:
        raise UsageError("no network is given; give -t DIR, the folder of programqpc.bin")
    return Request(
        directory=Path(directory),
        qid=_qid(given),
        sku=sku_named(environment),
        options=_options(given),
        amount=_amount(given),
        inputs=tuple(Path(text) for text in given.texts("-i")),
        unbound=given.has("--unbound-random"),
        compared=tuple(Path(text) for text in given.texts("-o")),
        writing=_writing(given),
        profile=_profile(given),
        verbose=given.has("-v"),
        notes=_notes(given),
    )


def _refuse(given: CommandLine) -> None:
    for flag in given.having(Effect.REFUSED):
        raise UsageError(f"{flag.name}: {flag.remark}")


def _qid(given: CommandLine) -> int:
    listed = re.split("[:,]", given.text("-D") or given.text("-d") or "0")
    if len(set(listed)) > 1:
        raise UsageError(
            f"-D={given.text('-D')}: names {len(set(listed))} cards, one is simulated"
        )
    return int(listed[0])


def _options(given: CommandLine) -> RunOptions:
    return RunOptions(
        instances=given.whole("-a") or 1,
        set_size=given.whole("-S") or 10,
        threads_per_queue=given.whole("-T") or 4,
    )


def _amount(given: CommandLine) -> Amount:
    inferences, seconds = given.whole("-n"), given.whole("--time")
    return Amount(inferences=inferences or DEFAULT_INFERENCES, seconds=seconds)


def _writing(given: CommandLine) -> Writing | None:
    if not any(given.has(name) for name in _WRITES):
        return None
    return Writing(
        folder=_folder(given, "--write-output-dir"),
        first=given.whole("--write-output-start-iter") or 0,
        count=given.whole("--write-output-num-samples") or 1,
    )


def _profile(given: CommandLine) -> Profile:
    duration_ms = given.whole("--aic-profiling-duration")
    return Profile(
        kinds=tuple(dict.fromkeys(given.texts("--aic-profiling-type"))),
        first=given.whole("--aic-profiling-start-iter") or 0,
        most=given.whole("--aic-profiling-num-samples") or 1,
        stream=Stream(
            delay_s=(given.whole("--aic-profiling-start-delay") or 0) / _MS_PER_S,
            duration_s=None if duration_ms is None else duration_ms / _MS_PER_S,
            stride=SAMPLING[given.text("--aic-profiling-sampling-rate") or "full"],
        ),
        folder=_folder(given, "--aic-profiling-out-dir"),
    )


def _folder(given: CommandLine, name: str) -> Path:
    folder = Path(given.text(name) or ".")
    if not folder.is_dir():
        raise UsageError(f"{name}={folder}: is no folder; make it first")
    return folder


def _notes(given: CommandLine) -> tuple[str, ...]:
    idle = [flag.name for flag in given.having(Effect.NOTED)]
    return (f"without effect here: {', '.join(idle)}",) if idle else ()
