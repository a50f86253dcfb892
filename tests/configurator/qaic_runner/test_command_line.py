"""Each option's syntax against a list written from the vendor's documentation, and getopt's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configurator.errors import UsageError
from configurator.qaic_runner.command_line import parse
from configurator.qaic_runner.flags import BY_NAME, FLAGS
from configurator.qaic_runner.help import USAGE, help_text
from configurator.vendor_cli.flag import Effect
from configurator.vendor_cli.getopt import UnknownOptionError

_PATH = (("a.file", "../x y/ü.bin", "/tmp/a=b"), ("",))
_FROM_0 = (("0", "5", "99999"), ("", "a", "1.5", "+2", "٣"))
_FROM_1 = (("1", "14", "0016"), ("", "a", "0", "1e3", "9" * 19))
_QIDS = (("0", "3:1:2", "0,1"), ("", "a", "0:", ",1"))

VALUED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "t": _PATH,
    "test-data": _PATH,
    "d": _FROM_0,
    "aic-device-id": _FROM_0,
    "dev": _FROM_0,
    "D": _QIDS,
    "aic-device-map": _QIDS,
    "dev-list": _QIDS,
    "n": _FROM_1,
    "num-iter": _FROM_1,
    "time": _FROM_1,
    "a": _FROM_1,
    "aic-num-of-activations": _FROM_1,
    "S": _FROM_1,
    "set-size": _FROM_1,
    "T": _FROM_1,
    "aic-threads-per-queue": _FROM_1,
    "p": (("on", "off"), ("", "On", "1")),
    "pre-post-processing": (("on", "off"), ("", "no")),
    "submit-timeout": _FROM_0,
    "submit-retry-count": _FROM_0,
    "i": _PATH,
    "input-file": _PATH,
    "aic-batch-input-directory": _PATH,
    "aic-batch-input-file-list": _PATH,
    "aic-batch-json-input": _PATH,
    "aic-batch-max-memory": _FROM_1,
    "auto-batch-input": (("0", "1"), ("", "2")),
    "o": _PATH,
    "output-file": _PATH,
    "write-output-dir": _PATH,
    "write-output-start-iter": _FROM_0,
    "write-output-num-samples": _FROM_1,
    "aic-profiling-type": (
        ("stats", "trace", "latency", "trace_stream", "latency_stream", "raw_device_stats"),
        ("", "all", "Latency", "stats,trace"),
    ),
    "aic-profiling-format": (("latency",), ("", "json")),
    "aic-profiling-start-iter": _FROM_0,
    "aic-profiling-num-samples": _FROM_1,
    "aic-profiling-out-dir": _PATH,
    "aic-profiling-start-delay": _FROM_0,
    "aic-profiling-duration": _FROM_1,
    "aic-profiling-sampling-rate": (
        ("full", "half", "fourth", "eighth", "sixteenth"),
        ("", "third"),
    ),
    "aic-profiling-reporting-rate": (("500", "1000", "2000", "4000"), ("", "750")),
    "r": _FROM_1,
    "live-reporting-period": _FROM_1,
}

BARE = [
    *("unbound-random", "dump-input-buffers", "v", "verbose", "vv", "vvv"),
    *("s", "stats", "l", "live-reporting", "h", "help"),
]

GOOD = [(name, value) for name, (good, _) in VALUED.items() for value in good]
BAD = [(name, value) for name, (_, bad) in VALUED.items() for value in bad]


def test_the_table_has_the_documented_options_and_no_others() -> None:
    assert sorted(BY_NAME) == sorted([*VALUED, *BARE])


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_a_good_value_is_taken_in_every_form(name: str, value: str) -> None:
    forms = [[f"{dash}{name}={value}"] for dash in ("-", "--")]
    forms += [[dash + name, value] for dash in ("-", "--")]
    if len(name) == 1:
        forms.append([f"-{name}{value}"])
    for arguments in forms:
        given_ = parse(arguments)
        assert all(given_.text(other) == value for other in BY_NAME[name].names)


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"-{name}=") as refused:
        parse([f"--{name}={value}"])
    assert not isinstance(refused.value, UnknownOptionError)


@pytest.mark.parametrize("name", VALUED)
def test_a_value_that_is_missing_is_asked_for(name: str) -> None:
    for arguments in ([f"--{name}"], [f"--{name}", "-v"]):
        with pytest.raises(UsageError, match="requires an argument"):
            parse(arguments)


@pytest.mark.parametrize("name", BARE)
def test_an_option_without_value_takes_none(name: str) -> None:
    assert all(parse([f"--{name}"]).has(other) for other in BY_NAME[name].names)
    with pytest.raises(UsageError, match="doesn't allow an argument"):
        parse([f"--{name}=1"])


@given(argument=st.text(min_size=1))
def test_any_other_argument_is_answered_as_getopt_does(argument: str) -> None:
    name = argument.lstrip("-").partition("=")[0]
    if name in BY_NAME or argument[1:2] in VALUED:
        return
    with pytest.raises(UnknownOptionError) as refused:
        parse(["-v", argument])
    assert str(refused.value) == f"unrecognized option '{argument}'"


def test_three_dashes_are_no_option() -> None:
    for argument in ("---time", "---a", "----"):
        with pytest.raises(UnknownOptionError):
            parse([argument, "3"])


def test_the_last_of_several_counts_but_lists_keep_all() -> None:
    found = parse(["-n", "3", "--num-iter=5", "-i", "a", "-i", "b"])
    assert found.whole("-n") == 5
    assert found.texts("-i") == ("a", "b")


def test_help_lists_every_option_and_its_lines_fit() -> None:
    words = help_text().replace(",", " ").replace("=", " ").split()
    assert {name for flag in FLAGS for name in flag.names} <= set(words)
    texts = [line for line in help_text().splitlines() if not line.startswith("  -")]
    assert max(map(len, texts)) <= 99
    assert help_text().startswith(USAGE)
    assert "simulated" in help_text()


def test_what_is_refused_says_why() -> None:
    for flag in FLAGS:
        assert bool(flag.remark) == (flag.effect is Effect.REFUSED)
