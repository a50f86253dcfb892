"""The tables, and how records become rows of them and back.

Schema 2: `studies` (key: name), `trials` (key: study, number; a candidate once a study),
`schema_version` (one row: whose database this is, and of which schema). Schema 1 lacks
`ADDED_COLUMNS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    MappedColumn,
    composite,
    mapped_column,
)
from sqlalchemy.types import TypeDecorator

from compiler.ir.dtypes import DType
from compiler.options import CompileOptions, Precision
from compiler.target import Sku
from configurator.errors import StoreError
from configurator.records import (
    Candidate,
    GivenShape,
    Provenance,
    Study,
    TrialRow,
    TrialState,
    Workflow,
)
from runtime_sim.measurement import Busy, Latency, Measurement, Source
from runtime_sim.options import RunOptions

APPLICATION = "aic-configurator"
SCHEMA_VERSION = 2

# assumed: every database can index a key of this length.
_NAME = String(255)
_DIGEST = String(64)


class UtcTime(TypeDecorator[datetime]):
    """Aware times, kept without zone in UTC: not every database has a type with zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Into the database."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Out of the database."""
        return None if value is None else value.replace(tzinfo=UTC)


class Base(MappedAsDataclass, DeclarativeBase, kw_only=True):
    """Column types by Python type; integers and floats at full width."""

    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy declares it as an instance variable
        int: BigInteger(),
        float: Double(),
        str: Text(),
        datetime: UtcTime(),
    }


class SchemaRecord(Base):
    """Whose database this is, and of which schema."""

    __tablename__ = "schema_version"

    application: Mapped[str] = mapped_column(_NAME, primary_key=True)
    version: Mapped[int]


class StudyRecord(Base):
    """A `Study`; what is a list there is JSON.

    `symbols`: [name, extent]. `input_shapes`: [input, type, extents, batch dims], NULL for none.
    """

    __tablename__ = "studies"

    name: Mapped[str] = mapped_column(_NAME, primary_key=True)
    model_path: Mapped[str]
    model_sha256: Mapped[str] = mapped_column(_DIGEST)
    batch_symbol: Mapped[str | None]
    symbols: Mapped[str]
    input_shapes: Mapped[str | None]
    sku: Mapped[str] = mapped_column(_NAME)
    workflow: Mapped[str] = mapped_column(_NAME)
    seed: Mapped[int]
    created_at: Mapped[datetime]


def _optional_columns(prefix: str, kind: type[Latency] | type[Busy]) -> list[MappedColumn[float]]:
    names = [f"{prefix}_{field.name}" for field in fields(kind)]
    return [mapped_column(name, Double, nullable=True) for name in names]


class TrialRecord(Base):
    """A `TrialRow`: its knobs, its measurement (all NULL or none), its provenance.

    `inferences_per_s` follows from other columns; it is there for those who read with SQL.
    `input_shapes` is JSON, a list of [input, extents], NULL for none.
    """

    __tablename__ = "trials"
    __table_args__ = (UniqueConstraint("study", "candidate_key"),)

    study: Mapped[str] = mapped_column(ForeignKey("studies.name"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    candidate_key: Mapped[str] = mapped_column(_DIGEST)

    cores: Mapped[int]
    instances: Mapped[int]
    batch_size: Mapped[int]
    set_size: Mapped[int]
    ols: Mapped[int | None]
    mos: Mapped[int | None]
    multicast_weights: Mapped[bool]
    precision: Mapped[str] = mapped_column(_NAME)
    symbols: Mapped[str]
    input_shapes: Mapped[str | None]
    inferences_per_instance: Mapped[int]
    threads_per_queue: Mapped[int]

    state: Mapped[str] = mapped_column(_NAME)
    reason: Mapped[str]

    inferences_per_s: Mapped[float | None]
    latency: Mapped[Latency | None] = composite(*_optional_columns("latency", Latency))
    busy: Mapped[Busy | None] = composite(*_optional_columns("busy", Busy))
    source: Mapped[str | None] = mapped_column(_NAME)
    inferences: Mapped[int | None]
    duration_s: Mapped[float | None]
    measured_batch_size: Mapped[int | None]
    measured_backend_version: Mapped[str | None]
    measured_timing_id: Mapped[str | None]
    clock_hz: Mapped[float | None]
    power_w: Mapped[float | None]

    model_sha256: Mapped[str] = mapped_column(_DIGEST)
    sku: Mapped[str] = mapped_column(_NAME)
    compiler_version: Mapped[str]
    backend_version: Mapped[str]
    timing_id: Mapped[str]
    configurator_version: Mapped[str]
    seed: Mapped[int]
    host: Mapped[str]
    started_at: Mapped[datetime]
    wall_s: Mapped[float]


# What schema 2 added to the tables of schema 1.
ADDED_COLUMNS = (
    StudyRecord.__table__.c.input_shapes,
    TrialRecord.__table__.c.input_shapes,
    TrialRecord.__table__.c.clock_hz,
    TrialRecord.__table__.c.power_w,
)


def study_record(study: Study) -> StudyRecord:
    """`study` as a row of its table."""
    return StudyRecord(
        name=study.name,
        model_path=study.model_path,
        model_sha256=study.model_sha256,
        batch_symbol=study.batch_symbol,
        symbols=json.dumps(study.symbols),
        input_shapes=_shapes_text(map(_given_fields, study.input_shapes)),
        sku=study.sku.value,
        workflow=study.workflow.value,
        seed=study.seed,
        created_at=study.created_at,
    )


def study_of(record: StudyRecord) -> Study:
    """What `study_record` was made of; `StoreError` where the row holds something else."""
    try:
        return Study(
            name=record.name,
            model_path=record.model_path,
            model_sha256=record.model_sha256,
            batch_symbol=record.batch_symbol,
            symbols=_symbols(record.symbols),
            input_shapes=_given_shapes(record.input_shapes),
            sku=Sku(record.sku),
            workflow=Workflow(record.workflow),
            seed=record.seed,
            created_at=record.created_at,
        )
    except ValueError as error:
        raise StoreError(f"study {record.name} is stored damaged: {error}") from error


def trial_record(row: TrialRow) -> TrialRecord:
    """`row` as a row of its table."""
    chosen, run, measured = row.candidate.compile, row.candidate.run, row.measurement
    made = row.provenance
    return TrialRecord(
        study=row.study,
        number=row.number,
        candidate_key=row.candidate.key(),
        cores=chosen.num_cores,
        instances=run.instances,
        batch_size=chosen.batch_size,
        set_size=run.set_size,
        ols=chosen.ols,
        mos=chosen.mos,
        multicast_weights=chosen.multicast_weights,
        precision=chosen.precision.value,
        symbols=json.dumps(chosen.symbols),
        input_shapes=_shapes_text(chosen.input_shapes),
        inferences_per_instance=run.inferences,
        threads_per_queue=run.threads_per_queue,
        state=row.state.value,
        reason=row.reason,
        inferences_per_s=measured.inferences_per_s if measured else None,
        latency=measured.latency if measured else None,
        busy=measured.busy if measured else None,
        source=measured.source.value if measured else None,
        inferences=measured.inferences if measured else None,
        duration_s=measured.duration_s if measured else None,
        measured_batch_size=measured.batch_size if measured else None,
        measured_backend_version=measured.backend_version if measured else None,
        measured_timing_id=measured.timing_id if measured else None,
        clock_hz=measured.clock_hz if measured else None,
        power_w=measured.power_w if measured else None,
        model_sha256=made.model_sha256,
        sku=made.sku.value,
        compiler_version=made.compiler_version,
        backend_version=made.backend_version,
        timing_id=made.timing_id,
        configurator_version=made.configurator_version,
        seed=made.seed,
        host=made.host,
        started_at=row.started_at,
        wall_s=row.wall_s,
    )


def row_of(record: TrialRecord) -> TrialRow:
    """What `trial_record` was made of; `StoreError` where the row holds something else."""
    try:
        return TrialRow(
            study=record.study,
            number=record.number,
            candidate=_candidate(record),
            state=TrialState(record.state),
            measurement=_measurement(record),
            reason=record.reason,
            provenance=_provenance(record),
            started_at=record.started_at,
            wall_s=record.wall_s,
        )
    except ValueError as error:
        where = f"trial {record.number} of study {record.study}"
        raise StoreError(f"{where} is stored damaged: {error}") from error


def _candidate(record: TrialRecord) -> Candidate:
    return Candidate(
        CompileOptions(
            num_cores=record.cores,
            batch_size=record.batch_size,
            ols=record.ols,
            mos=record.mos,
            multicast_weights=record.multicast_weights,
            precision=Precision(record.precision),
            symbols=_symbols(record.symbols),
            input_shapes=_input_shapes(record.input_shapes),
        ),
        RunOptions(
            instances=record.instances,
            set_size=record.set_size,
            inferences=record.inferences_per_instance,
            threads_per_queue=record.threads_per_queue,
        ),
    )


def _measurement(record: TrialRecord) -> Measurement | None:
    if (
        record.latency is None
        or record.busy is None
        or record.source is None
        or record.inferences is None
        or record.duration_s is None
        or record.measured_batch_size is None
        or record.measured_backend_version is None
        or record.measured_timing_id is None
    ):
        return None
    return Measurement(
        source=Source(record.source),
        backend_version=record.measured_backend_version,
        timing_id=record.measured_timing_id,
        inferences=record.inferences,
        batch_size=record.measured_batch_size,
        duration_s=record.duration_s,
        latency=record.latency,
        busy=record.busy,
        clock_hz=record.clock_hz,
        power_w=record.power_w,
    )


def _provenance(record: TrialRecord) -> Provenance:
    return Provenance(
        model_sha256=record.model_sha256,
        sku=Sku(record.sku),
        compiler_version=record.compiler_version,
        backend_version=record.backend_version,
        timing_id=record.timing_id,
        configurator_version=record.configurator_version,
        seed=record.seed,
        host=record.host,
    )


def _symbols(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((str(name), int(extent)) for name, extent in json.loads(text))


def _shapes_text(shapes: Iterable[object]) -> str | None:
    listed = list(shapes)
    return json.dumps(listed) if listed else None


def _input_shapes(text: str | None) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((str(name), _extents(extents)) for name, extents in json.loads(text or "[]"))


def _given_fields(shape: GivenShape) -> list[object]:
    return [shape.input, shape.dtype.value, shape.extents, shape.batch_dims]


def _given_shapes(text: str | None) -> tuple[GivenShape, ...]:
    return tuple(
        GivenShape(str(name), DType(dtype), _extents(extents), _extents(batch_dims))
        for name, dtype, extents, batch_dims in json.loads(text or "[]")
    )


def _extents(listed: Iterable[int]) -> tuple[int, ...]:
    return tuple(map(int, listed))
