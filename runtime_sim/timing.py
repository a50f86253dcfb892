"""How fast the device and its host are: rates and costs, each with its source or assumption.

Sources: "profile" is the vendor's device profile of BERT-base fp16 at 2 cores, batch 8
(quic/cloud-ai-sdk, tutorials/NLP/Profiler-Intermediate), "llm" its profile of a 7B model's decode
(Profiler-LLM), "tuning" the two Performance-Tuning notebooks, "pages" the Architecture page of
quic.github.io/cloud-ai-sdk-pages. `assumed` gives the reason instead.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compiler.program import VectorOp


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingParams:
    """One device's speeds.

    Rates are sustained, of a Standard card; costs are in nanoseconds or NSP cycles, as named.
    `vector_millicycles` is indexed by `VectorOp`: thousandths of a cycle per element on one core
    with its four HVX contexts at work. `nsp_clock_hz` is the ceiling, which holds while the card
    draws no more than `power_cap_permille` of its rated power. Energies are in femtojoules at an
    NSP clock of 1 GHz; those of the NSPs rise with the clock f in GHz like 1 + k f^2, where k is
    `voltage_permille` / 1000.
    """

    nsp_clock_hz: int
    hmx_block: int
    hmx_cycles_per_block: int
    hmx_efficiency_permille: int
    hmx_task_cycles: int
    vector_millicycles: tuple[int, ...]
    vector_task_cycles: int
    dma_issue_cycles: int
    hmx_operator_cycles: int
    hvx_operator_cycles: int
    operator_core_cycles: int
    ddr_bytes_per_s: int
    ddr_core_bytes_per_s: int
    ddr_latency_ns: int
    noc_bytes_per_s: int
    noc_core_bytes_per_s: int
    noc_latency_ns: int
    barrier_ns: int
    barrier_core_ns: int
    launch_ns: int
    pcie_in_bytes_per_s: int
    pcie_out_bytes_per_s: int
    pcie_latency_ns: int
    host_enqueue_ns: int
    host_submit_ns: int
    host_prepare_ns: int
    host_prepare_bytes_per_s: int
    host_finish_ns: int
    host_finish_bytes_per_s: int
    host_gap_ns: int
    static_mw: int
    power_cap_permille: int
    voltage_permille: int
    hmx_fj_per_mac: int
    hmx_int8_fj_per_mac: int
    hvx_fj_per_cycle: int
    ddr_fj_per_byte: int
    noc_fj_per_byte: int
    pcie_fj_per_byte: int

    @property
    def id(self) -> str:
        """A digest of all values."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_ELEMENTS_PER_KILOCYCLE = {
    # profile: output KB per pcycle and core, averaged over both cores; fp16 elements.
    VectorOp.ADD: 40_300,
    VectorOp.ADD_SPLAT: 41_700,
    VectorOp.MUL: 28_000,
    VectorOp.MUL_SPLAT: 42_700,
    VectorOp.BROADCAST: 16_200,
    VectorOp.ERF: 4_800,
    VectorOp.SOFTMAX: 2_100,
    VectorOp.NORMALIZE: 6_800,
    VectorOp.TRANSPOSE: 8_900,
    VectorOp.TO_D32: 17_800,
    VectorOp.FROM_D32: 32_400,
    VectorOp.WEIGHTS_TO_D32: 12_900,
    # assumed: like the measured class that does the same kind of work.
    VectorOp.COPY: 42_700,  # one load and one store, like a splat
    VectorOp.COMPARE: 40_300,  # one instruction a vector, like add
    VectorOp.DIVIDE: 9_600,  # a reciprocal by Newton steps: half of erf's polynomial
    VectorOp.EXPONENTIAL: 4_800,  # a polynomial, like erf
    VectorOp.SIGMOID: 4_800,  # an exponential and a reciprocal fused, like erf
    VectorOp.REDUCE: 40_300,  # one add an input element
    VectorOp.POOL: 40_300,  # one compare or add an input element of each window
    VectorOp.DEPTHWISE: 28_000,  # one multiply a tap
    VectorOp.GATHER: 32_400,  # row copies with an index each
    VectorOp.CONVERT: 32_400,  # width change, like convertfromd32
    VectorOp.RESIZE: 8_900,  # index arithmetic and a move, like transpose
    VectorOp.EPILOGUE: 42_700,  # a scale and an add on the way out
}

PUBLISHED = TimingParams(
    # krai/ck-qaic: 1450 MHz at most; the profile of a memory-bound model runs at just that.
    nsp_clock_hz=1_450_000_000,
    # quic/qemu, HMX of v68: 32 x 32 x 32 in fp16; pages: 4096 MAC a cycle, hence 8 cycles.
    hmx_block=32,
    hmx_cycles_per_block=8,
    # profile: 2863 of 4096 MAC a cycle while HMX is at work.
    hmx_efficiency_permille=699,
    # assumed: what a core spends on a task besides its work; the profile's 1081 products of
    # 14,443 cycles already include it, so it is set small.
    hmx_task_cycles=300,
    vector_millicycles=tuple(round(1_000_000 / _ELEMENTS_PER_KILOCYCLE[op]) for op in VectorOp),
    # assumed: a few hundred cycles to start four threads, like a dependence between threads.
    vector_task_cycles=300,
    # profile: 97,200 pcycles in 413 copies.
    dma_issue_cycles=235,
    # profile: 811 barriers of 0.6 us on HMX, 653 of 1.2 us on HVX, two cores taking part: one
    # before nearly each operator. assumed: half of it is skew; a further core adds 50 ns.
    hmx_operator_cycles=400,
    hvx_operator_cycles=800,
    operator_core_cycles=70,
    # tuning: two 7-core instances of BERT-base read 170 MB of weights 700 times a second; llm
    # shows 111.3 GB a second.
    ddr_bytes_per_s=119_000_000_000,
    # assumed: above the 24.4 GB a second that a core sees with 14 cores at work (profile) and
    # the 26 GB a second that BERT-base needs on one core alone (tuning, 6.51 ms).
    ddr_core_bytes_per_s=32_000_000_000,
    # assumed: middle of 300 to 800 ns, usual for LPDDR4X behind an on-chip network.
    ddr_latency_ns=500,
    # pages: 186 GB a second; profile: 97.5 of one sender.
    noc_bytes_per_s=186_000_000_000,
    noc_core_bytes_per_s=97_500_000_000,
    # assumed: a remote store and its doorbell.
    noc_latency_ns=200,
    # profile: barriers of 0.6 to 1.2 us on two cores, skew included.
    barrier_ns=500,
    barrier_core_ns=70,
    # profile: activation and input semaphore, 0.23 ms once and 0.26 us each; assumed for the rest.
    launch_ns=5_000,
    # small CNNs saturate at 21.5 k images a second of 602,112 bytes (quic/cloud-ai-sdk tables).
    pcie_in_bytes_per_s=12_980_000_000,
    # fill-mask models return 748 x 14.8 MB a second, and no more on any split of the card (same).
    pcie_out_bytes_per_s=11_100_000_000,
    # assumed: one to two microseconds a request.
    pcie_latency_ns=2_000,
    # tuning: enqueue 1.7 to 6.8 us; submit 1.6 us and 4.9 us to the virtual channel.
    host_enqueue_ns=4_000,
    host_submit_ns=6_500,
    # tuning: pre-processing of ResNet-50, 37 us for 602,112 bytes; of BERT-base, 5 us.
    host_prepare_ns=4_000,
    host_prepare_bytes_per_s=18_000_000_000,
    # tuning: post-processing 2.1 to 5.2 us.
    host_finish_ns=2_500,
    host_finish_bytes_per_s=18_000_000_000,
    # tuning: at set size 1 the time between inferences exceeds the round trip by 41 to 68 us.
    host_gap_ns=50_000,
    # assumed: a little below the least card power among published runs, 18.9 W.
    static_mw=15_000,
    # krai/ck-qaic: cards of 75 W are capped at 66 W.
    power_cap_permille=880,
    # Hot Chips 33 (wikichip): 12.05 W at 149 TOPS, 19.74 at 197, 69.26 at 363, which are 568, 751
    # and 1385 MHz of 16 NSPs; joules an operation rise like 1 + 1.29 f^2 within 5 %.
    voltage_permille=1_290,
    # The Standard card is rated at 110 TFLOPS in fp16 and 75 W: 954 MHz of 14 NSPs; less static.
    hmx_fj_per_mac=1_150,
    # Hot Chips 33, the last of the three points, less static.
    hmx_int8_fj_per_mac=197,
    # assumed: 256 lanes of fp16, each like a MAC of HMX with its operands from VTCM.
    hvx_fj_per_cycle=400_000,
    # assumed: 5 pJ a bit of LPDDR4X with its interface.
    ddr_fj_per_byte=40_000,
    # assumed: about 1 pJ a bit across the die, and 5 a bit on PCIe.
    noc_fj_per_byte=8_000,
    pcie_fj_per_byte=40_000,
)
"""Values from public sources alone; nothing is fitted."""


CALIBRATED_FILE = Path(__file__).parent / "calibrated.json"
"""What `python -m studies.calibration` wrote: the timing, and the record of its fit."""


def as_document(timing: TimingParams) -> dict[str, object]:
    """The form in which a timing is stored: vector classes by name."""
    classes = {op.name: timing.vector_millicycles[op] for op in VectorOp}
    return asdict(timing) | {"vector_millicycles": classes}


def from_document(document: dict[str, Any]) -> TimingParams:
    """The timing that `as_document` stored."""
    classes = document["vector_millicycles"]
    millicycles = tuple(int(classes[op.name]) for op in VectorOp)
    return TimingParams(**(document | {"vector_millicycles": millicycles}))


CALIBRATED = from_document(json.loads(CALIBRATED_FILE.read_text("utf-8"))["timing"])
"""`PUBLISHED` fitted to measured configurations of real cards; what the simulator runs with."""
