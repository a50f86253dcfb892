"""The values that options take: how each is written, and what is said of text that cannot be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

# Eighteen digits always fit the 64 bits of the columns that hold them.
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Value:
    """`syntax` is how help shows it; `fault` gives what a text must be instead, `None` if it is.

    `example` is a text that passes.
    """

    syntax: str
    fault: Callable[[str], str | None]
    example: str


def whole(least: int, most: int | None = None) -> Value:
    """A whole number from `least` to `most`."""
    bounds = f"{least} or more" if most is None else f"{least} to {most}"

    def fault(text: str) -> str | None:
        if not is_whole(text):
            return f"must be a whole number, {bounds}"
        number = int(text)
        inside = number >= least and (most is None or number <= most)
        return None if inside else f"must be {bounds}"

    return Value("N" if most is None else f"{least}..{most}", fault, str(least))


def ratio() -> Value:
    """A number above 0 and up to 1."""

    def fault(text: str) -> str | None:
        fits = re.fullmatch(r"[0-9]{0,18}(\.[0-9]{1,18})?", text) and text
        return None if fits and 0 < float(text) <= 1 else "must be a number above 0 and up to 1"

    return Value("0..1", fault, "0.5")


def percent(least: int) -> Value:
    """A number from `least` to 100."""

    def fault(text: str) -> str | None:
        fits = re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,18})?", text)
        inside = fits and least <= float(text) <= 100
        return None if inside else f"must be a number, {least} to 100"

    return Value(f"{least}..100", fault, "99.5")


def one_of(*names: str) -> Value:
    """One of the names, spelled so."""

    def fault(text: str) -> str | None:
        return None if text in names else f"must be one of {', '.join(names)}"

    return Value("|".join(names), fault, names[0])


def truth() -> Value:
    """`True` or `False`, in any case."""

    def fault(text: str) -> str | None:
        return None if text.lower() in ("true", "false") else "must be True or False"

    return Value("True|False", fault, "True")


def whole_list(least: int) -> Value:
    """Whole numbers of at least `least`, with commas between."""

    def fault(text: str) -> str | None:
        numbers = text.split(",")
        fits = all(is_whole(number) and int(number) >= least for number in numbers)
        return None if fits else f"must be whole numbers of {least} or more, like 1 or 7,7"

    return Value("N[,N...]", fault, f"{least},{least + 1}")


def qids() -> Value:
    """Cards by number, with commas or colons between."""

    def fault(text: str) -> str | None:
        fits = all(is_whole(number) for number in re.split("[:,]", text))
        return None if fits else "must be card numbers, like 0 or 0:1"

    return Value("N[:N...]", fault, "0")


def names(metavar: str, most: int | None = None) -> Value:
    """Names with commas between, at most `most`."""

    def fault(text: str) -> str | None:
        parts = text.split(",")
        if not all(part.strip() for part in parts):
            return "must be names with commas between, none of them empty"
        if most is not None and len(parts) > most:
            return f"names {len(parts)}, at most {most} are possible"
        return None

    return Value(f"{metavar}[,{metavar}...]", fault, "first,second")


def path(metavar: str) -> Value:
    """A path, of whatever is or will be there."""

    def fault(text: str) -> str | None:
        return None if text and "\0" not in text else "must be a path"

    return Value(metavar, fault, "some/path")


def symbol() -> Value:
    """A symbolic dimension and its extent."""

    def fault(text: str) -> str | None:
        name, _, extent = text.rpartition(",")
        fits = name.strip() and is_whole(extent) and int(extent) >= 1
        return None if fits else "must be SYMBOL,EXTENT, like batch,8"

    return Value("SYMBOL,N", fault, "batch,8")


def model_input() -> Value:
    """An input with its type and shape; the first extent may be open."""

    def fault(text: str) -> str | None:
        fits = _MODEL_INPUT.fullmatch(text)
        return None if fits else "must be NAME,TYPE,[DIMS], like pixels,float,[1,3,224,224]"

    return Value("NAME,TYPE,[DIMS]", fault, "pixels,float,[*,3,224,224]")


_MODEL_INPUT = re.compile(
    r"(?P<name>[^,]+),\s*(?P<type>\w+)\s*,\s*"
    r"\[(?P<dims>\s*(\*|[1-9][0-9]{0,17})\s*(,\s*[1-9][0-9]{0,17}\s*)*)?\]"
)


def is_whole(text: str) -> bool:
    """Whether `text` is an unsigned whole number that 64 bits hold."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def split_symbol(text: str) -> tuple[str, int]:
    """The parts of a text that `symbol` found right."""
    name, _, extent = text.rpartition(",")
    return name.strip(), int(extent)


def split_model_input(text: str) -> tuple[str, str, tuple[int | None, ...]]:
    """Name, type and extents (`None` for `*`) of a text that `model_input` found right."""
    found = _MODEL_INPUT.fullmatch(text)
    assert found is not None
    dims = (found["dims"] or "").split(",") if (found["dims"] or "").strip() else []
    extents = tuple(None if dim.strip() == "*" else int(dim) for dim in dims)
    return found["name"].strip(), found["type"], extents
