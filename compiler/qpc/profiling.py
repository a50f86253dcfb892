"""What a network was compiled to tell about its own execution, as a segment of its own."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import QpcError
from compiler.qpc import payload

PROFILING_SEGMENT = "aic_configurator_profiling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiling:
    """The kinds of profiles asked for (stats, trace, latency) and the depth of the statistics."""

    kinds: tuple[str, ...] = ()
    stats_level: int = 0

    def __bool__(self) -> bool:
        """Whether the device tells anything."""
        return bool(self.kinds) or self.stats_level > 0


def encode(profiling: Profiling) -> bytes:
    """The content of the segment."""
    return payload.seal(payload.plain(profiling))


def decode(content: bytes) -> Profiling:
    """What `encode` was given; `QpcError` where the segment is damaged."""
    head, _ = payload.unseal(content, "profiling")
    try:
        return payload.restored(Profiling, head)
    except (ValueError, TypeError, LookupError) as error:
        raise QpcError(f"the profiling segment is damaged: {error}") from error
