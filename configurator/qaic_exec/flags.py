"""Every option of the real tool that public material names, and what it does here.

Spelling, ranges and defaults are those of the vendor's model-compilation documentation, of its
Python interface, of its ONNX Runtime provider and of its published scripts.
"""

from __future__ import annotations

from configurator.vendor_cli import values
from configurator.vendor_cli.flag import Effect, Flag
from configurator.vendor_cli.flag import flag as _flag

_SCHEMAS = values.one_of(
    "symmetric", "asymmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"
)
_SCHEMA = "symmetric_with_uint8"
_AUTO = "the compiler chooses"
_NOT_QUANTIZED = "ranges come from samples only; give -convert-to-quantize -input-list-file=FILE"
_ONE_DEVICE = "a network runs on one device here; leave the option out"
_EMBEDDINGS = "embedding tables stay in the network; leave the option out"

_MODEL = (
    _flag("-m -model", values.path("FILE"), "ONNX model"),
    _flag(
        "-model-input",
        values.model_input(),
        "shape of an input whose dims the model leaves open; * is the batch",
        many=True,
    ),
    _flag(
        "-onnx-define-symbol",
        values.symbol(),
        "extent of a symbolic dim, the batch among them",
        many=True,
    ),
    _flag(
        "-network-specialization-config",
        values.path("JSON"),
        "several shapes of one network, each as extents of its symbols",
    ),
    _flag(
        "-batchsize",
        values.whole(1),
        "samples per inference, for a model whose batch is not a symbol",
        default="1",
    ),
    _flag(
        "-output-node-name",
        values.names("NAME"),
        "outputs of a TensorFlow model",
        effect=Effect.REFUSED,
        remark="only ONNX models can be compiled; an ONNX model names its outputs itself",
    ),
    _flag(
        "-register-custom-op",
        values.path("FILE"),
        "code of an operator of your own",
        effect=Effect.REFUSED,
        remark="there is no card to run such code on; export the operator as ONNX operators or "
        "as a local function",
    ),
    _flag(
        "-always-expand-onnx-functions",
        None,
        "replace functions of the model by their bodies (always done here)",
        effect=Effect.NOTED,
    ),
    _flag(
        "-dynamic-shape-input",
        values.names("NAME"),
        "inputs whose shape varies from run to run",
        effect=Effect.REFUSED,
        remark="every shape must be known; give several with -network-specialization-config",
    ),
    _flag(
        "-load-embedding-tables",
        values.path("FILE"),
        "embedding tables kept outside the network",
        effect=Effect.REFUSED,
        remark=_EMBEDDINGS,
    ),
    _flag(
        "-dump-embedding-tables",
        values.path("FILE"),
        "write embedding tables to a file",
        effect=Effect.REFUSED,
        remark=_EMBEDDINGS,
    ),
    _flag(
        "-operators-supported",
        values.one_of("onnx", "tensorflow", "pytorch", "caffe", "caffe2"),
        "list the operators that compile, and exit",
    ),
)

_TARGET = (
    _flag("-aic-hw", None, "compile for a card, not for QAIC_SIM", effect=Effect.NOTED),
    _flag(
        "-aic-hw-version",
        values.one_of("2.0", "ai100", "ai200"),
        "generation of the card; only the Cloud AI 100 (2.0, ai100) is known here",
        default="2.0",
    ),
    _flag("-aic-num-cores", values.whole(1), "NSPs of one instance", default="1"),
    _flag(
        "-aic-num-of-instances",
        values.whole(1),
        "instances side by side, when the network is executed",
        default="1",
    ),
    _flag("-device-id", values.whole(0), "card that executes (one here)", effect=Effect.NOTED),
    _flag("-compile-only", None, "do not execute the network after compiling it"),
    _flag("-aic-binary-dir", values.path("DIR"), "folder for programqpc.bin"),
)

_SCHEDULE = (
    _flag("-ols", values.whole(1), "overlap split: pieces of each operation", default=_AUTO),
    _flag(
        "-mos",
        values.whole_list(1),
        "cores that an operation's output channels are split over; one number a cluster with "
        "-sdp-cluster-sizes",
        default=_AUTO,
    ),
    _flag(
        "-multicast-weights", None, "read weights once from DDR and send them to the other cores"
    ),
    _flag(
        "-aic-enable-depth-first",
        None,
        "run chains of operations tile by tile",
        default=_AUTO,
    ),
    _flag(
        "-aic-depth-first-mem",
        values.whole(8, 32),
        "MiB that such a chain may fill",
        default=_AUTO,
    ),
    _flag(
        "-allocator-dealloc-delay",
        values.whole(0, 10),
        "operations for which a buffer stays reserved after its last use",
        default=_AUTO,
    ),
    _flag(
        "-size-split-granularity",
        values.whole(512, 2048),
        "KiB of the largest tile of an operation that does not fit",
        default=_AUTO,
    ),
    _flag(
        "-vtcm-working-set-limit-ratio",
        values.ratio(),
        "share of VTCM that one operation may use",
        default=_AUTO,
    ),
    _flag(
        "-sdp-cluster-sizes",
        values.whole_list(1),
        "cores of the clusters that form a pipeline",
    ),
    _flag(
        "-combine-inputs",
        values.truth(),
        "bring all inputs in one host transfer",
        default="True",
    ),
    _flag(
        "-combine-outputs",
        values.truth(),
        "fetch all outputs in one host transfer",
        default="True",
    ),
    _flag(
        "-use-producer-dma",
        values.one_of("0", "1"),
        "the thread that makes a buffer starts its DMA",
        effect=Effect.NOTED,
    ),
    _flag("-aic-preproc", None, "pre- and post-processing on the card", effect=Effect.NOTED),
    _flag("-host-preproc", None, "pre- and post-processing on the host", effect=Effect.NOTED),
    _flag(
        "-retained-state",
        None,
        "keep state, like a KV cache, on the card between inferences",
        effect=Effect.WARNED,
        remark="the state travels to the host and back with each inference, which costs rate",
    ),
    _flag(
        "-mdp-load-partition-config",
        values.path("JSON"),
        "partition over several devices",
        effect=Effect.REFUSED,
        remark=_ONE_DEVICE,
    ),
    _flag(
        "-mdp-dump-partition-config",
        values.path("JSON"),
        "write such a partition",
        effect=Effect.REFUSED,
        remark=_ONE_DEVICE,
    ),
    _flag(
        "-mdts-mos",
        values.whole(1),
        "mos for tensors sliced over several devices",
        effect=Effect.REFUSED,
        remark=_ONE_DEVICE,
    ),
)

_PRECISION = (
    _flag("-convert-to-fp16", None, "compute all floating-point operations in fp16"),
    _flag("-mxfp6-matmul", None, "keep constant matrix operands in MXFP6"),
    _flag(
        "-execute-nodes-in-fp16",
        values.names("OP"),
        "nodes or operators that stay in fp16 when the network is quantised",
    ),
    _flag(
        "-keep-original-precision-for-nodes",
        values.names("OP"),
        "nodes or operators that are not quantised",
    ),
    _flag(
        "-node-precision-info",
        values.path("YAML"),
        "precision of single nodes",
        effect=Effect.WARNED,
        remark="nodes that it keeps in fp32 are computed in fp16",
    ),
    _flag(
        "-custom-IO-list-file",
        values.path("YAML"),
        "layout, precision and scale of inputs and outputs",
        effect=Effect.WARNED,
        remark="inputs and outputs keep the types of the model",
    ),
    _flag(
        "-dump-custom-IO-config-template",
        values.path("YAML"),
        "write a template for -custom-IO-list-file, and exit",
    ),
    _flag(
        "-convert-to-quantize",
        None,
        "profile the inputs and quantise",
    ),
    _flag(
        "-load-profile",
        values.path("FILE"),
        "quantise by a profile",
        effect=Effect.REFUSED,
        remark=_NOT_QUANTIZED,
    ),
    _flag(
        "-load-embedded-profile",
        None,
        "quantise by the profile in the model",
        effect=Effect.REFUSED,
        remark=_NOT_QUANTIZED,
    ),
    _flag(
        "-dump-profile",
        values.path("FILE"),
        "write a profile of the inputs' values",
        effect=Effect.REFUSED,
        remark=_NOT_QUANTIZED,
    ),
    _flag(
        "-external-quantization",
        values.path("FILE"),
        "quantise by given scales and offsets",
        effect=Effect.REFUSED,
        remark=_NOT_QUANTIZED,
    ),
    _flag(
        "-input-list-file",
        values.path("FILE"),
        "raw files of inputs to profile",
    ),
    _flag("-quantization-schema", _SCHEMAS, "of all", default=_SCHEMA, effect=Effect.NOTED),
    _flag(
        "-quantization-schema-activations",
        _SCHEMAS,
        "of activations",
        default=_SCHEMA,
        effect=Effect.NOTED,
    ),
    _flag(
        "-quantization-schema-constants",
        _SCHEMAS,
        "of constants",
        default=_SCHEMA,
        effect=Effect.NOTED,
    ),
    _flag(
        "-quantization-calibration",
        values.one_of("None", "KLMinimization", "KLMinimizationV2", "Percentile", "MSE", "SQNR"),
        "how ranges are found",
        default="None",
    ),
    _flag(
        "-percentile-calibration-value",
        values.percent(90),
        "share of values inside the range",
        default="100",
    ),
    _flag(
        "-num-histogram-bins",
        values.whole(1),
        "of a profile",
        default="512",
        effect=Effect.NOTED,
    ),
    _flag(
        "-quantization-precision",
        values.one_of("Int8", "Int16"),
        "of quantised operators",
        default="Int8",
        effect=Effect.NOTED,
    ),
    _flag(
        "-quantization-precision-bias",
        values.one_of("Int8", "Int32"),
        "of their biases",
        default="Int32",
        effect=Effect.NOTED,
    ),
    _flag(
        "-enable-channelwise",
        None,
        "one scale a channel, Conv",
        default=_AUTO,
    ),
    _flag("-enable-rowwise", None, "one scale a row, Gemm", default=_AUTO, effect=Effect.NOTED),
    _flag("-profiling-threads", values.whole(1), "that profile inputs", effect=Effect.NOTED),
)

_REPORTS = (
    _flag("-v -vv -vvv", None, "say more, also -vv and -vvv", many=True),
    _flag("-aic-perf-metrics", None, "print resources and traffic of the network"),
    _flag("-aic-perf-warnings", None, "print what costs performance"),
    _flag("-ddr-stats", None, "print DDR traffic of each core"),
    _flag("-time-passes", None, "print how long each stage took"),
    _flag(
        "-stats-batchsize",
        values.whole(1),
        "batch that printed rates are normalised by",
        default="1",
    ),
    _flag(
        "-aic-profiling-type",
        values.one_of("stats", "trace", "latency"),
        "print device times when the network is executed, here or later; repeat for more",
        many=True,
    ),
    _flag(
        "-stats-level",
        values.whole(0),
        "depth of device statistics; above 0, device times are printed later",
        default="0",
    ),
    _flag(
        "-aic-pmu-recipe",
        values.one_of("AxiRd", "AxiWr", "AxiRdWr", "KernelUtil", "HmxMacs"),
        "set of hardware counters",
        effect=Effect.NOTED,
    ),
    _flag(
        "-aic-pmu-events",
        values.names("EVENT", most=8),
        "hardware counters",
        effect=Effect.NOTED,
    ),
)

_BUILD = (
    _flag(
        "-compile-threads",
        values.whole(1),
        "host threads that compile",
        effect=Effect.NOTED,
    ),
    _flag("-enable-debug", None, "keep what helps to debug", effect=Effect.NOTED),
    _flag("-io-crc", None, "checksums of inputs and outputs", effect=Effect.NOTED),
    _flag(
        "-io-crc-stride",
        values.whole(1),
        "bytes between samples of the checksum",
        default="256",
        effect=Effect.NOTED,
    ),
    _flag("-qpc-crc", None, "checksum of the container", effect=Effect.NOTED),
    _flag("-sub-functions", None, "compile repeated parts once", effect=Effect.NOTED),
)

_HELP = (
    _flag("-h -help --help", None, "print this text, and exit"),
    _flag("-u --usage", None, "print the usual command line, and exit"),
)

SECTIONS: tuple[tuple[str, tuple[Flag, ...]], ...] = (
    ("Model", _MODEL),
    ("Target and output", _TARGET),
    ("Schedule", _SCHEDULE),
    ("Precision", _PRECISION),
    ("Reports", _REPORTS),
    ("Build", _BUILD),
    ("Help", _HELP),
)

FLAGS: tuple[Flag, ...] = tuple(flag for _, section in SECTIONS for flag in section)

BY_NAME: dict[str, Flag] = {name: flag for flag in FLAGS for name in flag.names}
