"""Every option of the real tool that public material names, and what it does here.

Spelling and defaults are those of the vendor's model-execution documentation, of the source of its
open runner, and of its published notebooks.
"""

from __future__ import annotations

from configurator.card_run import DEFAULT_INFERENCES
from configurator.vendor_cli import values
from configurator.vendor_cli.flag import Effect, Flag
from configurator.vendor_cli.flag import flag as _flag

LATENCY = ("latency", "latency_stream")
STATS = ("stats", "raw_device_stats")
STREAMS = ("latency_stream", "trace_stream")
TYPES = ("stats", "trace", "latency", "trace_stream", "latency_stream", "raw_device_stats")

SAMPLING = {"full": 1, "half": 2, "fourth": 4, "eighth": 8, "sixteenth": 16}
"""One of so many inferences is sampled."""

_QUEUE = 512
"""Elements of an activation's queue on the card, in the vendor's open runtime."""

_ONE_INPUT = "all inferences run on one input; give it with -i, or leave the option out"

_RUN = (
    _flag("-t --test-data", values.path("DIR"), "folder of programqpc.bin"),
    _flag(
        "-d --aic-device-id --dev",
        values.whole(0),
        "card, by its QID; any is one simulated card",
        default="0",
    ),
    _flag(
        "-D --aic-device-map --dev-list",
        values.qids(),
        "cards; one only, since one is simulated",
    ),
    _flag(
        "-n --num-iter",
        values.whole(1),
        "inferences over all activations",
        default=str(DEFAULT_INFERENCES),
    ),
    _flag("--time", values.whole(1), "seconds in which inferences are asked for; replaces -n"),
    _flag("-a --aic-num-of-activations", values.whole(1), "instances", default="1"),
    _flag(
        "-S --set-size",
        values.whole(1, _QUEUE),
        "outstanding inferences an instance",
        default="10",
    ),
    _flag("-T --aic-threads-per-queue", values.whole(1), "host threads an instance", default="4"),
    _flag(
        "-p --pre-post-processing",
        values.one_of("on", "off"),
        "whether the host prepares inputs and outputs",
        default="on",
        effect=Effect.NOTED,
    ),
    _flag(
        "--submit-timeout",
        values.whole(0),
        "ms to wait for a result",
        default="0",
        effect=Effect.NOTED,
    ),
    _flag("--submit-retry-count", values.whole(0), "retries", default="5", effect=Effect.NOTED),
)

_INPUT = (
    _flag(
        "-i --input-file",
        values.path("FILE"),
        "raw input, one for each in the order of the network; random ones else",
        many=True,
    ),
    _flag("--unbound-random", None, "random inputs of any value of their type"),
    _flag("--dump-input-buffers", None, "write inputs too", effect=Effect.NOTED),
    _flag(
        "--aic-batch-input-directory",
        values.path("DIR"),
        "folder of raw inputs of batch 1",
        effect=Effect.REFUSED,
        remark=_ONE_INPUT,
    ),
    _flag(
        "--aic-batch-input-file-list",
        values.path("FILE"),
        "list of raw inputs of batch 1",
        effect=Effect.REFUSED,
        remark=_ONE_INPUT,
    ),
    _flag(
        "--aic-batch-json-input",
        values.path("FILE"),
        "inputs by name",
        effect=Effect.REFUSED,
        remark=_ONE_INPUT,
    ),
    _flag(
        "--aic-batch-max-memory",
        values.whole(1),
        "MB of inputs held",
        default="1024",
        effect=Effect.NOTED,
    ),
    _flag(
        "--auto-batch-input",
        values.one_of("0", "1"),
        "group inputs of batch 1",
        default="1",
        effect=Effect.NOTED,
    ),
)

_OUTPUT = (
    _flag(
        "-o --output-file",
        values.path("FILE"),
        "raw output to compare with, one for each in the order of the network",
        many=True,
    ),
    _flag("--write-output-dir", values.path("DIR"), "write outputs to this folder", default="."),
    _flag(
        "--write-output-start-iter",
        values.whole(0),
        "write outputs, from this inference of each activation on",
        default="0",
    ),
    _flag(
        "--write-output-num-samples",
        values.whole(1),
        "write outputs of so many inferences",
        default="1",
    ),
)

_PROFILING = (
    _flag(
        "--aic-profiling-type --aic-profiling-format",
        values.one_of(*TYPES),
        "what is measured and written; repeat for more",
        many=True,
    ),
    _flag(
        "--aic-profiling-start-iter",
        values.whole(0),
        "first inference of each activation that is measured",
        default="0",
    ),
    _flag(
        "--aic-profiling-num-samples",
        values.whole(1),
        "inferences of each activation that are measured, at most",
        default="1",
    ),
    _flag(
        "--aic-profiling-out-dir",
        values.path("DIR"),
        "folder of the files, which must be there",
        default=".",
    ),
    _flag(
        "--aic-profiling-start-delay",
        values.whole(0),
        "streams: ms before the first measured inference",
        default="0",
    ),
    _flag("--aic-profiling-duration", values.whole(1), "streams: ms that are measured"),
    _flag(
        "--aic-profiling-sampling-rate",
        values.one_of(*SAMPLING),
        "streams: part of the inferences that is measured",
        default="full",
    ),
    _flag(
        "--aic-profiling-reporting-rate",
        values.one_of("500", "1000", "2000", "4000"),
        "streams: ms between reports",
        default="500",
        effect=Effect.NOTED,
    ),
)

_REPORTS = (
    _flag("-v --verbose -vv -vvv", None, "say more", many=True),
    _flag("-s --stats", None, "statistics every second", effect=Effect.NOTED),
    _flag("-l --live-reporting", None, "report while running", effect=Effect.NOTED),
    _flag(
        "-r --live-reporting-period",
        values.whole(1),
        "ms between reports",
        default="1000",
        effect=Effect.NOTED,
    ),
    _flag("-h --help", None, "print this text, and exit"),
)

SECTIONS: tuple[tuple[str, tuple[Flag, ...]], ...] = (
    ("Run", _RUN),
    ("Inputs", _INPUT),
    ("Outputs", _OUTPUT),
    ("Profiling", _PROFILING),
    ("Reports and help", _REPORTS),
)

FLAGS: tuple[Flag, ...] = tuple(flag for _, section in SECTIONS for flag in section)

BY_NAME: dict[str, Flag] = {name.lstrip("-"): flag for flag in FLAGS for name in flag.names}
"""By the name without its dashes: one or two are the same."""
