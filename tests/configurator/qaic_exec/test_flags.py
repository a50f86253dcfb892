"""Each option's syntax, good and bad, against a list written from the vendor's documentation."""

from __future__ import annotations

import pytest

from configurator.errors import UsageError
from configurator.qaic_exec.command_line import UnknownOptionError, parse
from configurator.qaic_exec.flags import BY_NAME, FLAGS
from configurator.vendor_cli.flag import Effect

_PATH = ("a.file", "../x y/ü.bin", "/tmp/a=b")
_WHOLE = ("1", "14", "0016")
_NOT_WHOLE = ("", "a", "-1", "1.5", "1e3", "+2", "1 ", "٣", "9" * 19)
_FROM_1 = (*_NOT_WHOLE, "0")
_SCHEMAS = ("symmetric", "asymmetric", "symmetric_with_uint8", "symmetric_with_power2_scale")
_NAMES = ("Conv", "Conv,MatMul")
_NOT_NAMES = ("", ",", "Conv,", "Conv,,MatMul")

VALUED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "-m": (_PATH, ("", "a\0b")),
    "-model": (_PATH, ("", "a\0b")),
    "-model-input": (
        ("x,float,[1,3,224,224]", "x,float,[*,3]", "a/b:0, int64 ,[ 1 , 2 ]", "x,float,[]"),
        ("x", "x,float", "x,float,1,3", "x,float,[0]", "x,float,[1,*]", ",float,[1]", "x,,[1]"),
    ),
    "-output-node-name": (_NAMES, _NOT_NAMES),
    "-onnx-define-symbol": (
        ("batch,8", "a b,1", "a,b,2"),
        ("", "batch", "batch,", "batch,0", ",8", "batch,-1", "batch,x", "batch=8"),
    ),
    "-network-specialization-config": (_PATH, ("",)),
    "-aic-num-cores": (_WHOLE, _FROM_1),
    "-ols": (_WHOLE, _FROM_1),
    "-mos": (("1", "1,7", "2,2,2"), (*_FROM_1, "1,", ",1", "1,0", "1;2")),
    "-batchsize": (_WHOLE, _FROM_1),
    "-stats-batchsize": (_WHOLE, _FROM_1),
    "-aic-binary-dir": (_PATH, ("",)),
    "-aic-hw-version": (("2.0", "ai100", "ai200"), ("", "2", "1.0", "AI100")),
    "-aic-profiling-type": (("stats", "trace", "latency"), ("", "all", "Stats", "stats,trace")),
    "-operators-supported": (("onnx", "tensorflow", "pytorch", "caffe", "caffe2"), ("", "tf")),
    "-device-id": (("0", "15"), _NOT_WHOLE),
    "-stats-level": (("70", "100"), _NOT_WHOLE),
    "-aic-pmu-recipe": (("AxiRd", "AxiWr", "AxiRdWr", "KernelUtil", "HmxMacs"), ("", "axird")),
    "-aic-pmu-events": (("a", "a,b,c,d,e,f,g,h"), ("", "a,,b", "a,b,c,d,e,f,g,h,i")),
    "-aic-depth-first-mem": (("8", "16", "32"), (*_NOT_WHOLE, "7", "33")),
    "-allocator-dealloc-delay": (("0", "10"), (*_NOT_WHOLE, "11")),
    "-size-split-granularity": (("512", "2048"), (*_NOT_WHOLE, "511", "2049")),
    "-vtcm-working-set-limit-ratio": (
        ("0.1", "1", "1.0", ".5", "0.25"),
        ("", ".", "0", "0.0", "1.1", "-0.5", "a", "1e-1", "nan", "inf"),
    ),
    "-sdp-cluster-sizes": (("7,7", "6,6", "14"), (*_FROM_1, "7,", "7,0")),
    "-use-producer-dma": (("0", "1"), ("", "2", "True")),
    "-combine-inputs": (("True", "False", "true"), ("", "1", "yes")),
    "-combine-outputs": (("True", "False", "false"), ("", "0", "no")),
    "-custom-IO-list-file": (_PATH, ("",)),
    "-dump-custom-IO-config-template": (_PATH, ("",)),
    "-mdp-load-partition-config": (_PATH, ("",)),
    "-mdp-dump-partition-config": (_PATH, ("",)),
    "-mdts-mos": (_WHOLE, _FROM_1),
    "-aic-num-of-instances": (_WHOLE, _FROM_1),
    "-register-custom-op": (_PATH, ("",)),
    "-load-profile": (_PATH, ("",)),
    "-dump-profile": (_PATH, ("",)),
    "-input-list-file": (_PATH, ("",)),
    "-quantization-schema": (_SCHEMAS, ("", "Symmetric")),
    "-quantization-schema-activations": (_SCHEMAS, ("", "Symmetric")),
    "-quantization-schema-constants": (_SCHEMAS, ("", "Symmetric")),
    "-quantization-calibration": (
        ("None", "KLMinimization", "KLMinimizationV2", "Percentile", "MSE", "SQNR"),
        ("", "none", "KL"),
    ),
    "-percentile-calibration-value": (("90", "99.99", "100"), ("", "89.9", "100.1", "x", "-95")),
    "-num-histogram-bins": (("512",), _FROM_1),
    "-quantization-precision": (("Int8", "Int16"), ("", "int8", "Int32")),
    "-quantization-precision-bias": (("Int8", "Int32"), ("", "Int16")),
    "-execute-nodes-in-fp16": (_NAMES, _NOT_NAMES),
    "-keep-original-precision-for-nodes": (_NAMES, _NOT_NAMES),
    "-node-precision-info": (_PATH, ("",)),
    "-external-quantization": (_PATH, ("",)),
    "-compile-threads": (_WHOLE, _FROM_1),
    "-profiling-threads": (_WHOLE, _FROM_1),
    "-io-crc-stride": (("256",), _FROM_1),
    "-dynamic-shape-input": (_NAMES, _NOT_NAMES),
    "-load-embedding-tables": (_PATH, ("",)),
    "-dump-embedding-tables": (_PATH, ("",)),
}

BARE = [
    "-multicast-weights",
    "-convert-to-fp16",
    "-aic-hw",
    "-compile-only",
    "-v",
    "-vv",
    "-vvv",
    "-aic-perf-metrics",
    "-aic-perf-warnings",
    "-time-passes",
    "-ddr-stats",
    "-aic-enable-depth-first",
    "-aic-preproc",
    "-host-preproc",
    "-retained-state",
    "-mxfp6-matmul",
    "-convert-to-quantize",
    "-enable-channelwise",
    "-enable-rowwise",
    "-io-crc",
    "-always-expand-onnx-functions",
    "-enable-debug",
    "-load-embedded-profile",
    "-qpc-crc",
    "-sub-functions",
    "-h",
    "-help",
    "--help",
    "-u",
    "--usage",
]

REPEATED = {"-model-input", "-onnx-define-symbol", "-aic-profiling-type", "-v"}

GOOD = [(name, value) for name, (good, _) in VALUED.items() for value in good]
BAD = [(name, value) for name, (_, bad) in VALUED.items() for value in bad]


def test_the_table_has_the_documented_options_and_no_others() -> None:
    assert sorted(BY_NAME) == sorted([*VALUED, *BARE])
    assert sum(len(flag.names) for flag in FLAGS) == len(BY_NAME)


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_a_good_value_is_taken_in_either_form(name: str, value: str) -> None:
    for arguments in ([f"{name}={value}"], [name, value]):
        given = parse(arguments)
        assert given.text(name) == value
        assert all(given.texts(other) == (value,) for other in BY_NAME[name].names)


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name) as refused:
        parse([f"{name}={value}"])
    assert not isinstance(refused.value, UnknownOptionError)


@pytest.mark.parametrize("name", BARE)
def test_an_option_without_value_takes_none(name: str) -> None:
    assert parse([name]).has(name)
    with pytest.raises(UsageError, match="takes no value"):
        parse([f"{name}=1"])
    with pytest.raises(UnknownOptionError, match="Invalid option 1"):
        parse([name, "1"])


@pytest.mark.parametrize("name", VALUED)
def test_a_value_that_is_missing_is_asked_for(name: str) -> None:
    for arguments in ([name], [name, "-compile-only"]):
        with pytest.raises(UsageError, match="needs a value"):
            parse(arguments)


@pytest.mark.parametrize("name", VALUED)
def test_only_some_options_may_be_repeated_with_another_value(name: str) -> None:
    values = VALUED[name][0]
    first, second = values[0], values[-1]
    assert parse([f"{name}={first}", f"{name}={first}"]).text(name) == first
    if first == second:
        return
    arguments = [f"{name}={first}", f"{name}={second}"]
    if name in REPEATED:
        assert parse(arguments).texts(name) == (first, second)
    else:
        with pytest.raises(UsageError, match="given twice"):
            parse(arguments)


def test_what_is_not_done_says_so() -> None:
    for flag in FLAGS:
        assert bool(flag.remark) == (flag.effect in (Effect.WARNED, Effect.REFUSED))
