"""The seam between tuning and whatever remembers it, and the refusals that all stores share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from datetime import datetime
from math import isfinite
from typing import Protocol

from configurator.errors import StoreError, UsageError
from configurator.records import Study, TrialRow
from runtime_sim.measurement import Measurement


class Store(Protocol):
    """Keeps studies and their trials.

    A protocol, because the implementations must not know each other. Contract of all of them:

    - What is read equals what was written, floats to the last bit, times in UTC; nothing that a
      caller does with it changes the store.
    - A trial is stored whole or not at all, and a reader sees it whole or not at all, whatever
      happens to the writer.
    - In a study, a number or a candidate that is there already is refused with `StoreError`, and
      so is what cannot be read back as it was: a number that is not finite, a time without zone.
    - A study that is not there is a `UsageError` which names those that are.
    """

    def create_study(self, study: Study) -> None:
        """Remember a new study; `StoreError` when there is one of its name."""

    def study(self, name: str) -> Study:
        """The study of this name."""

    def studies(self) -> tuple[Study, ...]:
        """All studies, by name."""

    def add(self, row: TrialRow) -> None:
        """Remember a new trial of a study that is there."""

    def rows(self, study: str) -> tuple[TrialRow, ...]:
        """The trials of a study, by number."""

    def find(self, study: str, candidate_key: str) -> TrialRow | None:
        """The trial of a study whose `candidate.key()` is this; None when there is none."""

    def next_number(self, study: str) -> int:
        """One above the highest number in a study; 0 where there is none."""


def refuse_study(study: Study) -> None:
    """Raise `StoreError` where `study` could not be read back as it is."""
    _refuse_time(f"study {study.name}", study.created_at)


def refuse_row(row: TrialRow) -> None:
    """Raise `StoreError` where `row` could not be read back as it is."""
    what = f"trial {row.number} of study {row.study}"
    _refuse_time(what, row.started_at)
    numbers = (row.wall_s, *(_numbers(row.measurement) if row.measurement else ()))
    bad = next((number for number in numbers if not isfinite(number)), None)
    if bad is not None:
        raise StoreError(f"{what} holds {bad}, which is no finite number; it is not stored")


def unknown_study(name: str, known: Iterable[str]) -> UsageError:
    """The refusal of a study that is not there."""
    names = ", ".join(known) or "none"
    return UsageError(f"there is no study {name}; stored: {names}; name one, or tune first")


def study_exists(name: str) -> StoreError:
    """The refusal of a second study of one name."""
    return StoreError(f"there is a study {name} already; give another --study name")


def number_taken(row: TrialRow) -> StoreError:
    """The refusal of a second trial of one number."""
    return StoreError(
        f"study {row.study} has a trial {row.number} already; is another process tuning it? "
        "Wait for it, or give another --study name"
    )


def candidate_taken(row: TrialRow, number: int) -> StoreError:
    """The refusal of a second trial of one candidate."""
    return StoreError(
        f"study {row.study} has the candidate of trial {row.number} already, as trial {number}; "
        "is another process tuning it? Wait for it, or give another --study name"
    )


def _numbers(measured: Measurement) -> tuple[float, ...]:
    latencies, shares = astuple(measured.latency), astuple(measured.busy)
    rate = measured.inferences_per_s if measured.duration_s else float("inf")
    told = (number for number in (measured.clock_hz, measured.power_w) if number is not None)
    return (measured.duration_s, rate, *latencies, *shares, *told)


def _refuse_time(what: str, time: datetime) -> None:
    if time.tzinfo is None:
        raise StoreError(f"{what} holds the time {time}, which has no zone; it is not stored")
