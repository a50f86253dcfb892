"""A store that ends with the process: for tests, and for searches that nobody resumes."""

from __future__ import annotations

from dataclasses import dataclass, field

from configurator.records import Study, TrialRow
from configurator.store import base


@dataclass(slots=True)
class _Shelf:
    study: Study
    by_number: dict[int, TrialRow] = field(default_factory=dict)
    by_candidate: dict[str, TrialRow] = field(default_factory=dict)


class MemoryStore:
    """See `Store`. Studies and rows are immutable, so that holding them is holding their value."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}

    def create_study(self, study: Study) -> None:
        """See `Store.create_study`."""
        base.refuse_study(study)
        if study.name in self._shelves:
            raise base.study_exists(study.name)
        self._shelves[study.name] = _Shelf(study)

    def study(self, name: str) -> Study:
        """See `Store.study`."""
        return self._shelf(name).study

    def studies(self) -> tuple[Study, ...]:
        """See `Store.studies`."""
        return tuple(self._shelves[name].study for name in sorted(self._shelves))

    def add(self, row: TrialRow) -> None:
        """See `Store.add`."""
        base.refuse_row(row)
        shelf, key = self._shelf(row.study), row.candidate.key()
        if row.number in shelf.by_number:
            raise base.number_taken(row)
        if key in shelf.by_candidate:
            raise base.candidate_taken(row, shelf.by_candidate[key].number)
        shelf.by_number[row.number] = shelf.by_candidate[key] = row

    def rows(self, study: str) -> tuple[TrialRow, ...]:
        """See `Store.rows`."""
        by_number = self._shelf(study).by_number
        return tuple(by_number[number] for number in sorted(by_number))

    def find(self, study: str, candidate_key: str) -> TrialRow | None:
        """See `Store.find`."""
        return self._shelf(study).by_candidate.get(candidate_key)

    def next_number(self, study: str) -> int:
        """See `Store.next_number`."""
        return max(self._shelf(study).by_number, default=-1) + 1

    def _shelf(self, name: str) -> _Shelf:
        if name not in self._shelves:
            raise base.unknown_study(name, sorted(self._shelves))
        return self._shelves[name]
