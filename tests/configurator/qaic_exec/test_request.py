"""Options to compile options and shapes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.driver import ModelFacts, ModelInput
from compiler.ir.dtypes import DType
from compiler.options import CompileOptions, violations
from compiler.target import Sku
from configurator.errors import UsageError
from configurator.qaic_exec.command_line import parse
from configurator.qaic_exec.flags import FLAGS
from configurator.qaic_exec.request import Request, request_of
from configurator.qaic_exec.shapes import shaped
from configurator.vendor_cli.flag import Effect


def request(line: str, **environment: str) -> Request:
    return request_of(parse(["-m=model.onnx", *line.split()]), environment)


def model(
    *inputs: tuple[str, tuple[int | str | None, ...] | None], batch: str | None = None
) -> ModelFacts:
    symbols = {dim for _, dims in inputs for dim in dims or () if isinstance(dim, str)} - {batch}
    declared = tuple(ModelInput(name, DType.FLOAT32, dims) for name, dims in inputs)
    return ModelFacts("0" * 64, "m", tuple(sorted(symbols)), batch, declared)


def options(line: str, facts: ModelFacts) -> CompileOptions:
    (found,) = shaped(request(line), facts).options
    return found


IMAGES = model(("pixels", ("batch", 3, 224, 224)), batch="batch")
TEXTS = model(("ids", ("batch", "seq")), ("mask", ("batch", "seq")), batch="batch")
FIXED = model(("pixels", (8, 3, 224, 224)))
OPEN = model(("pixels", (None, 3, None, None)))
NO_SHAPE = model(("pixels", None))


def test_without_options_everything_is_the_compilers_choice() -> None:
    """The real tool's own defaults: one core, weights not multicast."""
    found = request("")
    assert found.options == CompileOptions(num_cores=1, multicast_weights=False)
    assert (found.compile_only, found.binary_dir, found.batch_size) == (False, None, None)
    assert (found.instances, found.stats_batch_size, found.verbosity) == (1, 1, 0)


def test_every_knob_arrives() -> None:
    found = request(
        "-aic-num-cores=14 -ols=3 -mos=2 -multicast-weights -aic-enable-depth-first "
        "-aic-depth-first-mem=16 -size-split-granularity=1024 -vtcm-working-set-limit-ratio=0.25 "
        "-allocator-dealloc-delay=4 -combine-inputs=False -combine-outputs=True -mxfp6-matmul "
        "-sdp-cluster-sizes=7,7"
    )
    assert found.options == CompileOptions(
        num_cores=14,
        ols=3,
        mos=2,
        multicast_weights=True,
        depth_first=True,
        depth_first_mem_mib=16,
        size_split_granularity_kib=1024,
        vtcm_working_set_limit_ratio=0.25,
        allocator_dealloc_delay=4,
        combine_inputs=False,
        combine_outputs=True,
        sdp_cluster_sizes=(7, 7),
        mxfp6_matmul=True,
    )
    assert violations(found.options, found.device) == ()


def test_a_list_of_mos_is_for_clusters() -> None:
    found = request("-aic-num-cores=14 -sdp-cluster-sizes=7,7 -mos=1,7").options
    assert (found.mos, found.cluster_mos) == (None, (1, 7))
    with pytest.raises(UsageError, match="-sdp-cluster-sizes is not given"):
        request("-aic-num-cores=14 -mos=1,7")


@pytest.mark.parametrize(
    ("line", "mos", "of_clusters", "told"),
    [
        ("-aic-num-cores=2 -mos=2", 2, (), None),
        ("-mos=4", 1, (), "-mos=4: cores are 1; compiled as -mos=1"),
        (
            "-aic-num-cores=9 -sdp-cluster-sizes=2,7 -mos=4",
            None,
            (2, 4),
            "-mos=4: cores are clusters of 2,7; compiled as -mos=2,4",
        ),
        (
            "-aic-num-cores=9 -sdp-cluster-sizes=2,7 -mos=1,8",
            None,
            (1, 7),
            "-mos=1,8: cores are clusters of 2,7; compiled as -mos=1,7",
        ),
    ],
)
def test_mos_above_the_cores_is_lowered_and_told(
    line: str, mos: int | None, of_clusters: tuple[int, ...], told: str | None
) -> None:
    """The real tool takes it: its published tables have runs of 1 core with mos 2."""
    found = request(f"{line} -convert-to-fp16")
    assert (found.options.mos, found.options.cluster_mos) == (mos, of_clusters)
    assert found.warnings == (() if told is None else (told,))
    assert violations(found.options, found.device) == ()


@pytest.mark.parametrize(
    ("line", "environment", "sku"),
    [
        ("-aic-num-cores=14", {}, Sku.STD),
        ("-aic-num-cores=16", {}, Sku.PRO),
        ("-aic-num-cores=16", {"AIC_SKU": "std"}, Sku.STD),
        ("-aic-num-cores=1", {"AIC_SKU": "ultra"}, Sku.ULTRA),
        ("-aic-num-cores=1", {"AIC_SKU": ""}, Sku.STD),
    ],
)
def test_the_card(line: str, environment: dict[str, str], sku: Sku) -> None:
    assert request(line, **environment).device.sku is sku


def test_an_unknown_card_is_refused() -> None:
    with pytest.raises(UsageError, match="AIC_SKU=big: unknown card; known: std, pro"):
        request("", AIC_SKU="big")


@pytest.mark.parametrize("flag", [f for f in FLAGS if f.effect is Effect.REFUSED])
def test_what_cannot_be_done_is_refused(flag: object) -> None:
    assert flag in FLAGS
    refused = next(item for item in FLAGS if item is flag)
    given = refused.name + (f"={refused.value.example}" if refused.value else "")
    with pytest.raises(UsageError) as error:
        request(given)
    assert str(error.value) == f"{refused.name}: {refused.remark}"


def test_another_generation_is_refused() -> None:
    assert request("-aic-hw-version=ai100").model == Path("model.onnx")
    with pytest.raises(UsageError, match="ai200"):
        request("-aic-hw-version=ai200")


def test_a_model_must_be_given() -> None:
    with pytest.raises(UsageError, match="-m=MODEL"):
        request_of(parse(["-compile-only"]), {})


def test_what_has_no_effect_is_one_note_and_what_differs_is_a_warning() -> None:
    found = request("-aic-hw -io-crc -aic-hw -device-id=3 -retained-state -convert-to-fp16")
    assert found.notes == ("without effect here: -aic-hw, -io-crc, -device-id",)
    assert [text.partition(":")[0] for text in found.warnings] == ["-retained-state"]
    assert "fp16" in request("").warnings[0]


@given(batch=st.integers(1, 10**6), seq=st.integers(1, 10**6))
def test_symbols_bind_batch_and_others(batch: int, seq: int) -> None:
    line = f"-onnx-define-symbol=seq,{seq} -onnx-define-symbol=batch,{batch}"
    for also in ("", f" -batchsize={batch}"):
        found = options(line + also, TEXTS)
        assert (found.batch_size, found.symbols) == (batch, (("seq", seq),))


@pytest.mark.parametrize(
    ("line", "facts", "batch_size"),
    [
        ("", FIXED, 8),
        ("-batchsize=8", FIXED, 8),
        ("-batchsize=16", FIXED, 16),
        ("-model-input=pixels,float,[*,3,224,224]", FIXED, 8),
        ("-model-input=pixels,float,[4,3,224,224]", IMAGES, 4),
        ("-model-input=pixels,float,[*,3,224,224] -onnx-define-symbol=batch,2", IMAGES, 2),
        ("-model-input=pixels,float,[4,3,640,640]", OPEN, 4),
        ("-model-input=pixels,float,[*,3,640,640] -batchsize=2", OPEN, 2),
        ("-model-input=pixels,float,[*,3,640,640]", OPEN, 1),
        ("-model-input=pixels,float,[3,32]", NO_SHAPE, 3),
        ("", model(("a", (2, 3)), ("b", (5, 3))), 1),
        ("", model(("a", (2, 3)), ("scale", ())), 2),
        (
            "-onnx-define-symbol=n,4 -onnx-define-symbol=k,9",
            model(("a", ("n", 3)), ("b", ("k", 3))),
            1,
        ),
    ],
)
def test_the_batch_size(line: str, facts: ModelFacts, batch_size: int) -> None:
    found = options(line, facts)
    assert found.batch_size == batch_size
    for _, shape in found.input_shapes:
        assert shape[0] in (batch_size, *(d for i in facts.inputs for d in (i.dims or ())[:1]))


@pytest.mark.parametrize(
    ("line", "facts", "said"),
    [
        ("", IMAGES, "is the symbol batch; give -onnx-define-symbol=batch,1"),
        ("-batchsize=8", IMAGES, "give -onnx-define-symbol=batch,8"),
        ("-batchsize=8 -onnx-define-symbol=batch,4", IMAGES, "-batchsize=8: .* which is 4"),
        ("-onnx-define-symbol=batch,4", TEXTS, "symbol seq has no extent"),
        ("", OPEN, "-model-input=pixels,float,"),
        ("", NO_SHAPE, "its shape is open"),
        ("-model-input=image,float,[1]", IMAGES, "no such input; it has pixels"),
        ("-model-input=pixels,int64,[1,3,224,224]", IMAGES, "int64, the model says float32"),
        ("-model-input=pixels,quux,[1,3,224,224]", IMAGES, "unknown type quux"),
        ("-model-input=pixels,float,[1,3,224]", IMAGES, "has 3 dims, the model declares 4"),
        ("-model-input=pixels,float,[1,4,224,224]", IMAGES, "dim 1 is 4, the model declares 3"),
    ],
)
def test_shapes_that_stay_open_or_disagree(line: str, facts: ModelFacts, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        options(line, facts)


def test_contradicting_symbols_are_refused() -> None:
    with pytest.raises(UsageError, match="batch is also given as 4"):
        request("-onnx-define-symbol=batch,4 -onnx-define-symbol=batch,8")
    assert request("-onnx-define-symbol=b,4 -onnx-define-symbol=b,4").symbols == (("b", 4),)


def test_a_symbol_may_follow_from_the_shape_of_an_input() -> None:
    found = options("-model-input=ids,float,[2,128]", TEXTS)
    assert (found.batch_size, found.symbols) == (2, ())
    assert found.input_shapes == (("ids", (2, 128)),)


def test_a_symbol_that_the_model_lacks_is_a_warning() -> None:
    found = shaped(request("-onnx-define-symbol=batch,1 -onnx-define-symbol=ctx,9"), IMAGES)
    assert found.warnings == ("symbol ctx,9: the model has no such symbol; it has batch",)


def test_specializations_are_one_program_each(tmp_path: Path) -> None:
    """Numbers as text or as numbers; a symbol that is defined as well fills the gaps."""
    path = tmp_path / "s.json"
    entries = [{"batch": "1", "seq": 128}, {"batch": 4}]
    path.write_text(json.dumps({"specializations": entries}))
    line = f"-network-specialization-config={path} -onnx-define-symbol=seq,32"
    found = shaped(request(line), TEXTS)
    assert [(o.batch_size, o.symbols) for o in found.options] == [
        (1, (("seq", 128),)),
        (4, (("seq", 32),)),
    ]
