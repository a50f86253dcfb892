"""The parser over random command lines, and what is no option."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configurator.errors import UsageError
from configurator.qaic_exec.command_line import UnknownOptionError, parse
from configurator.qaic_exec.flags import BY_NAME
from configurator.vendor_cli.line import Given
from tests.configurator.qaic_exec.test_flags import BARE, GOOD

Option = tuple[str, str | None]

OPTIONS: list[Option] = [*GOOD, *((name, None) for name in BARE)]


def keeps_one_value(options: list[Option]) -> list[Option]:
    """The options without those that contradict an earlier one."""
    values: dict[str, str | None] = {}
    return [
        (name, value)
        for name, value in options
        if BY_NAME[name].many or values.setdefault(BY_NAME[name].name, value) == value
    ]


COMMAND_LINES = st.lists(st.sampled_from(OPTIONS), max_size=30).map(keeps_one_value)


@given(options=COMMAND_LINES, data=st.data())
def test_what_was_written_is_read_back(options: list[Option], data: st.DataObject) -> None:
    """In order, each value exactly, whether it follows `=` or is the next argument."""
    arguments: list[str] = []
    for name, value in options:
        if value is None:
            arguments.append(name)
        elif data.draw(st.booleans()):
            arguments.append(f"{name}={value}")
        else:
            arguments += [name, value]
    found = parse(arguments)
    assert [(item.name, item.value) for item in found.given] == [
        (name, value or "") for name, value in options
    ]
    assert parse([str(item) for item in found.given]) == found


@given(options=COMMAND_LINES)
def test_questions_agree_with_the_list(options: list[Option]) -> None:
    found = parse([name if value is None else f"{name}={value}" for name, value in options])
    for name, flag in BY_NAME.items():
        values = tuple(v or "" for given_name, v in options if given_name in flag.names)
        assert found.texts(name) == values
        assert found.has(name) == bool(values)
        assert found.text(name) == (values[-1] if values else None)
    letters = "".join(name for name, _ in options if name in ("-v", "-vv", "-vvv"))
    assert found.verbosity == letters.count("v")


@given(name=st.sampled_from(sorted(BY_NAME)), data=st.data())
def test_no_option_may_be_shortened(name: str, data: st.DataObject) -> None:
    short = name[: data.draw(st.integers(1, len(name) - 1))]
    if short not in BY_NAME:
        with pytest.raises(UnknownOptionError):
            parse([short, "1"])


@given(name=st.sampled_from(sorted(BY_NAME)))
def test_two_dashes_are_for_help_only(name: str) -> None:
    doubled = "-" + name
    if doubled not in ("--help", "--usage"):
        with pytest.raises(UnknownOptionError):
            parse([doubled])


@given(argument=st.text())
def test_any_other_argument_is_answered_as_the_real_tool_does(argument: str) -> None:
    if argument.partition("=")[0] in BY_NAME:
        return
    with pytest.raises(UnknownOptionError) as refused:
        parse(["-compile-only", argument])
    assert str(refused.value) == (
        f"Invalid option {argument}. Use -h, -help, or --help for list of options."
    )


def test_the_first_fault_is_the_one_that_is_named() -> None:
    with pytest.raises(UsageError, match="-ols=x"):
        parse(["-ols=x", "-nonsense"])


def test_values_are_read_as_what_they_are() -> None:
    found = parse(["-mos", "1,7", "-ols=3", "-combine-inputs=false"])
    assert found.wholes("-mos") == (1, 7)
    assert found.whole("-ols") == 3
    assert found.truth("-combine-inputs") is False
    assert (found.wholes("-sdp-cluster-sizes"), found.whole("-batchsize")) == ((), None)
    assert found.truth("-combine-outputs") is None
    assert found.given[0] == Given(BY_NAME["-mos"], "-mos", "1,7")
