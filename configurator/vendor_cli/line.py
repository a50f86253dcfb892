"""The options that a command line gives, however the tool wants them written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from configurator.errors import UsageError
from configurator.vendor_cli.flag import Effect, Flag


@dataclass(frozen=True, slots=True)
class Given:
    """One option of the command line, as it was spelled; `value` is empty where it takes none."""

    flag: Flag
    name: str
    value: str = ""

    def __str__(self) -> str:
        return self.name if self.flag.value is None else f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The options in the order in which they were given."""

    given: tuple[Given, ...]

    def has(self, name: str) -> bool:
        """Whether an option, by any of its names, was given."""
        return any(name in item.flag.names for item in self.given)

    def texts(self, name: str) -> tuple[str, ...]:
        """All values of an option."""
        return tuple(item.value for item in self.given if name in item.flag.names)

    def text(self, name: str) -> str | None:
        """The value of an option, `None` where it was not given."""
        found = self.texts(name)
        return found[-1] if found else None

    def whole(self, name: str) -> int | None:
        """The value of an option that takes a whole number."""
        found = self.text(name)
        return None if found is None else int(found)

    def wholes(self, name: str) -> tuple[int, ...]:
        """The values of an option that takes whole numbers with commas between."""
        found = self.text(name)
        return () if found is None else tuple(int(number) for number in found.split(","))

    def truth(self, name: str) -> bool | None:
        """The value of an option that takes True or False."""
        found = self.text(name)
        return None if found is None else found.lower() == "true"

    def having(self, effect: Effect) -> tuple[Flag, ...]:
        """The options with that effect, each once, in the order given."""
        return tuple(dict.fromkeys(item.flag for item in self.given if item.flag.effect is effect))

    @property
    def verbosity(self) -> int:
        """How often v was said: `-v -vv` is 3."""
        return sum(item.name.count("v") for item in self.given if "-v" in item.flag.names)


def check_repeats(given: Sequence[Given]) -> None:
    """An option that means one thing may be repeated, but not with another value."""
    first: dict[Flag, Given] = {}
    for item in given:
        before = first.setdefault(item.flag, item)
        if not item.flag.many and before.value != item.value:
            raise UsageError(f"{item.name} is given twice, as {before.value} and {item.value}")
