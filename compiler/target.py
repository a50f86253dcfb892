"""Published facts of the Cloud AI 100 cards, each with its source. Nothing here is fitted.

Source keys (see `SOURCES`): where two sources differ, the field says which one it follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SOURCES = {
    "pages": "quic.github.io/cloud-ai-sdk-pages, Architecture page (tables, drawings)",
    "mlperf": "mlcommons/inference_results v1.0 to v3.0, systems/*.json",
    "krai": "krai/ck-qaic, README.audit-v1.1 and script/setup.aedk (qaic-util listings)",
    "linley": "Linley newsletter 28 Sep 2021, coverage of the Hot Chips 33 talk",
    "kdoc": "docs.kernel.org/accel/qaic (aic100, qaic)",
    "sdk": "quic/cloud-ai-sdk tutorials, Profiler notebooks (printed reports)",
    "qemu-hmx": "quic/qemu target/hexagon, HMX of v68 (array rows, columns, rate)",
    "hvx-prm": "Hexagon V69 HVX Programmer's Reference Manual",
    "derived": "SRAM / 9 MB per NSP (8 MB VTCM + 1 MB L2) from the mlperf SRAM sizes",
    "pcie": "PCI Express 4.0: 16 GT/s a lane, 128b/130b coding",
}

MIB = 1 << 20
GB = 10**9


class Sku(Enum):
    """A card, or one SoC of a card that has several."""

    STD = "std"
    PRO = "pro"
    ULTRA = "ultra"
    LITE = "lite"
    DM2 = "dm2"
    DM2_14 = "dm2-14"
    DM2E = "dm2e"
    DM2E_9 = "dm2e-9"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One SoC as software sees it: a set of equal NSPs that share DDR, networks and PCIe.

    Rates are peaks; what is sustained is a fit and lives with the simulator. `sources` maps each
    field name to a key of `SOURCES`.
    """

    sku: Sku
    title: str
    nsps: int
    socs: int
    nsp_max_clock_hz: int
    hmx_fp16_macs_per_cycle: int
    hmx_int8_macs_per_cycle: int
    hvx_contexts: int
    hvx_vector_bytes: int
    vtcm_bytes: int
    vtcm_usable_bytes: int
    l2_bytes: int
    ddr_bytes: int
    ddr_bytes_per_s: int
    noc_bytes_per_s: int
    pcie_bytes_per_s: int
    tdp_w: float
    sources: tuple[tuple[str, str], ...]


_NSP_SOURCES = (
    ("nsp_max_clock_hz", "krai"),
    ("hmx_fp16_macs_per_cycle", "pages"),
    ("hmx_int8_macs_per_cycle", "pages"),
    ("hvx_contexts", "sdk"),
    ("hvx_vector_bytes", "hvx-prm"),
    ("vtcm_bytes", "pages"),
    ("vtcm_usable_bytes", "sdk"),
    ("l2_bytes", "pages"),
    ("noc_bytes_per_s", "pages"),
)

# 16 GT/s x 128/130 / 8 bits = 1.969 GB/s a lane and direction.
_PCIE4_LANE_BYTES_PER_S = 1_969_230_769


def _card(
    sku: Sku,
    title: str,
    *,
    nsps: int,
    socs: int = 1,
    ddr_gib: int,
    ddr_bytes_per_s: int = 136_500_000_000,
    pcie_lanes: int = 8,
    tdp_w: float,
    sources: tuple[tuple[str, str], ...],
) -> DeviceSpec:
    return DeviceSpec(
        sku=sku,
        title=title,
        nsps=nsps,
        socs=socs,
        nsp_max_clock_hz=1_450_000_000,
        hmx_fp16_macs_per_cycle=4096,
        hmx_int8_macs_per_cycle=8192,
        hvx_contexts=4,
        hvx_vector_bytes=128,
        vtcm_bytes=8 * MIB,
        vtcm_usable_bytes=8_323_072,
        l2_bytes=MIB,
        ddr_bytes=ddr_gib << 30,
        ddr_bytes_per_s=ddr_bytes_per_s,
        noc_bytes_per_s=186 * GB,
        pcie_bytes_per_s=pcie_lanes * _PCIE4_LANE_BYTES_PER_S,
        tdp_w=tdp_w,
        sources=sources + _NSP_SOURCES + (("pcie_bytes_per_s", "pcie"),),
    )


def _sources(nsps: str, ddr: str, rate: str, tdp: str) -> tuple[tuple[str, str], ...]:
    return (("nsps", nsps), ("ddr_bytes", ddr), ("ddr_bytes_per_s", rate), ("tdp_w", tdp))


DEVICES: tuple[DeviceSpec, ...] = (
    _card(
        Sku.STD,
        "Standard, PCIe HHHL",
        nsps=14,
        ddr_gib=16,
        tdp_w=75.0,
        sources=_sources("pages", "pages", "linley", "pages"),
    ),
    _card(
        Sku.PRO,
        "Pro, PCIe HHHL",
        nsps=16,
        ddr_gib=32,
        tdp_w=75.0,
        sources=_sources("pages", "pages", "linley", "pages"),
    ),
    _card(
        Sku.ULTRA,
        "Ultra, PCIe FH3/4L, one of its four SoCs",
        nsps=16,
        socs=4,
        ddr_gib=32,
        tdp_w=37.5,
        sources=_sources("pages", "pages", "pages", "pages"),
    ),
    _card(
        Sku.LITE,
        "Lite, PCIe HHHL",
        nsps=9,
        ddr_gib=8,
        tdp_w=55.0,
        sources=_sources("derived", "mlperf", "linley", "mlperf"),
    ),
    _card(
        Sku.DM2,
        "DM.2, 16 NSPs",
        nsps=16,
        ddr_gib=16,
        pcie_lanes=4,
        tdp_w=25.0,
        sources=_sources("derived", "mlperf", "mlperf", "mlperf"),
    ),
    _card(
        Sku.DM2_14,
        "DM.2, 14 NSPs",
        nsps=14,
        ddr_gib=8,
        pcie_lanes=4,
        tdp_w=25.0,
        sources=_sources("derived", "mlperf", "mlperf", "mlperf"),
    ),
    _card(
        Sku.DM2E,
        "DM.2e, 8 NSPs",
        nsps=8,
        ddr_gib=8,
        ddr_bytes_per_s=68_000_000_000,
        pcie_lanes=4,
        tdp_w=15.0,
        sources=_sources("krai", "mlperf", "mlperf", "mlperf"),
    ),
    _card(
        Sku.DM2E_9,
        "DM.2e, 9 NSPs",
        nsps=9,
        ddr_gib=8,
        ddr_bytes_per_s=68_000_000_000,
        pcie_lanes=4,
        tdp_w=15.0,
        sources=_sources("derived", "mlperf", "mlperf", "mlperf"),
    ),
)


def device(sku: Sku) -> DeviceSpec:
    """The facts of one SKU."""
    return next(spec for spec in DEVICES if spec.sku is sku)
