"""Einsum brought to the form that runs on the device: a product of two explicit operands."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_letters

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call
from compiler.frontend.made import Expansion, Maker
from compiler.ir.graph import TensorType


def is_other_einsum(call: Call) -> bool:
    """Whether the call is an Einsum of another form."""
    if call.op != "Einsum" or call.domain:
        return False
    terms, arrow, result = _equation(call).partition("->")
    return terms.count(",") != 1 or "." in terms or not arrow or not result


def rewritten(call: Call, types: Mapping[str, TensorType]) -> Expansion:
    """Sums, transposes and products of two operands in its place.

    `types` holds those of its operands. Raises `UnsupportedError` where it takes a diagonal.
    """
    terms, result = _explicit(call, [len(types[name].shape) for name in call.inputs])
    repeated = next((term for term in (*terms, result) if len(set(term)) < len(term)), None)
    if repeated is not None:
        raise UnsupportedError(
            f"{call.label} '{_equation(call)}' takes a diagonal; take it by a Gather, or mask it"
        )
    maker = Maker(call)
    value, term = call.inputs[0], terms[0]
    for at in range(1, len(terms)):
        after = {*result, *"".join(terms[at + 1 :])}
        wanted = "".join(c for c in dict.fromkeys(term + terms[at]) if c in after)
        is_last = at == len(terms) - 1
        wanted = result if is_last else wanted
        value = _product(maker, (value, call.inputs[at]), (term, terms[at]), wanted)
        term = wanted
    _arranged(maker, value, term, result, call.outputs[0])
    return maker.expansion()


def _equation(call: Call) -> str:
    return str(call.attributes.get("equation", "")).replace(" ", "")


def _explicit(call: Call, ranks: list[int]) -> tuple[list[str], str]:
    """The operands' terms and the result's, with letters of their own for an ellipsis."""
    equation = _equation(call)
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ModelError(
            f"{call.label} '{equation}' has {len(terms)} terms, there are {len(ranks)} operands"
        )
    free = [letter for letter in ascii_letters if letter not in equation]
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    if any(n < 0 or (n and "..." not in t) for n, t in zip(hidden, terms, strict=True)):
        raise ModelError(f"{call.label} '{equation}' does not fit operands of ranks {ranks}")
    extra = "".join(free[: max(hidden)])
    named = [
        term.replace("...", extra[len(extra) - count :])
        for term, count in zip(terms, hidden, strict=True)
    ]
    if arrow:
        return named, result.replace("...", extra)
    letters = "".join(named)
    once = sorted(c for c in set(letters) - set(extra) if letters.count(c) == 1)
    return named, extra + "".join(once)


def _product(maker: Maker, values: tuple[str, str], terms: tuple[str, str], wanted: str) -> str:
    if wanted:
        equation = f"{terms[0]},{terms[1]}->{wanted}"
        return maker.op("Einsum", values, attributes={"equation": equation})
    # Nothing is left: what only one operand has is summed there, the rest is a sum of products.
    common = "".join(c for c in terms[0] if c in terms[1])
    first = _arranged(maker, values[0], terms[0], common)
    second = _arranged(maker, values[1], terms[1], common)
    return _arranged(maker, maker.op("Mul", (first, second)), common, "")


def _arranged(maker: Maker, value: str, term: str, wanted: str, output: str = "") -> str:
    """The value with letters that are not wanted summed, the others in the wanted order."""
    summed = tuple(at for at, letter in enumerate(term) if letter not in wanted)
    kept = "".join(letter for letter in term if letter in wanted)
    if summed:
        value = maker.reduce_sum(value, summed, output if kept == wanted else "")
    if kept != wanted:
        perm = tuple(kept.index(letter) for letter in wanted)
        return maker.op("Transpose", (value,), output, {"perm": perm})
    return value if summed or not output else maker.op("Identity", (value,), output)
