"""What is known of a simulated card that runs nothing, under the names of the vendor's listing."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.target import MIB, DeviceSpec, Sku
from runtime_sim.device.power import Energy, cap_w, power_w
from runtime_sim.timing import CALIBRATED

_VIRTUAL_CHANNELS, _MULTICAST_IDS, _SEMAPHORES = 16, 3072, 32
"""krai/ck-qaic, listings of qaic-util."""

_LANE_BYTES_PER_S = 16e9 * 128 / 130 / 8
"""PCI Express 4.0: 16 GT/s a lane, 128b/130b coding."""

_ROOM_C = 25.0
"""assumed: a room."""
_KELVIN_PER_W = (91.5 - _ROOM_C) / 63.5
"""krai/ck-qaic: five cards show 88 to 95 C at 59 to 68 W, the middle of both."""

_SKU_TYPES = {
    Sku.STD: "PCIe",
    Sku.PRO: "PCIe Pro",
    Sku.ULTRA: "PCIe Ultra",
    Sku.LITE: "PCIe Lite",
    Sku.DM2: "M.2",
    Sku.DM2_14: "M.2",
    Sku.DM2E: "M.2",
    Sku.DM2E_9: "M.2",
}
"""The names of the vendor's open runtime; it has one for all M.2 modules."""

_HERTZ_PER_MHZ = 1e6


@dataclass(frozen=True, slots=True)
class Field:
    """One line of the listing. `value` is `None` where only a real card has one.

    `key` names it in JSON, where `unit` is left out.
    """

    title: str
    key: str
    value: str | int | float | None = None
    unit: str = ""

    @property
    def text(self) -> str:
        """Value and unit as the listing shows them."""
        return "N/A" if self.value is None else f"{self.value}{self.unit}"


@dataclass(frozen=True, slots=True)
class Card:
    """One SoC, by the number under which software finds it."""

    qid: int
    spec: DeviceSpec

    @property
    def idle_w(self) -> float:
        """The simulator's power of a card that runs nothing, in watts."""
        return power_w(Energy(0.0, 0.0), 0.0, CALIBRATED.nsp_clock_hz, CALIBRATED)

    @property
    def cap_w(self) -> float:
        """What the card may draw in the long run, in watts."""
        return cap_w(self.spec, CALIBRATED)

    @property
    def idle_c(self) -> int:
        """An estimate of the temperature at `idle_w`, in degrees Celsius."""
        return round(_ROOM_C + self.idle_w * _KELVIN_PER_W)

    @property
    def nsp_mhz(self) -> int:
        """The NSP clock that the power cap leaves an idle card: its ceiling."""
        return round(CALIBRATED.nsp_clock_hz / _HERTZ_PER_MHZ)

    @property
    def ddr_mib(self) -> int:
        """The DDR's capacity."""
        return self.spec.ddr_bytes // MIB

    def fields(self) -> tuple[Field, ...]:
        """The listing, line by line."""
        return (*self._link(), *self._images(), *self._memory(), *self._cores(), *self._board())

    def _link(self) -> tuple[Field, ...]:
        lanes = round(self.spec.pcie_bytes_per_s / _LANE_BYTES_PER_S)
        return (
            Field("Status", "dev_status", "Ready"),
            Field("PCI Address", "pci_address"),
            Field("PCI Info", "pci_info"),
            Field("Max Link Speed", "max_link_speed", "16.0 GT/s"),
            Field("Max Link Width", "max_link_width", lanes),
            Field("Current Link Speed", "current_link_speed", "16.0 GT/s"),
            Field("Current Link Width", "current_link_width", lanes),
            Field("Dev Link", "dev_link"),
        )

    def _images(self) -> tuple[Field, ...]:
        # qaic-exec compiles for -aic-hw-version=2.0, the only one there is.
        return (
            Field("HW Version", "hw_version", "2.0"),
            Field("HW Serial", "hw_serial"),
            Field("FW Version", "fw_version"),
            Field("FW QC_IMAGE_VERSION", "fw_qc_image_version"),
            Field("FW OEM_IMAGE_VERSION", "fw_oem_image_version"),
            Field("FW IMAGE_VARIANT", "fw_image_variant"),
            Field("FW Features", "fw_features"),
            Field("NSP Version", "nsp_version"),
            Field("NSP QC_IMAGE_VERSION", "nsp_qc_image_version"),
            Field("NSP OEM_IMAGE_VERSION", "nsp_oem_image_version"),
            Field("NSP IMAGE_VARIANT", "nsp_image_variant"),
        )

    def _memory(self) -> tuple[Field, ...]:
        return (
            Field("Dram Total", "dram_total_mb", self.ddr_mib, " MB"),
            Field("Dram Free", "dram_free_mb", self.ddr_mib, " MB"),
            Field("Dram Fragmentation", "dram_fragmentation_percent", 0, "%"),
            Field("Vc Total", "vc_total", _VIRTUAL_CHANNELS),
            Field("Vc Free", "vc_free", _VIRTUAL_CHANNELS),
            Field("Pc Total", "pc_total"),
            Field("Pc Reserved", "pc_reserved"),
        )

    def _cores(self) -> tuple[Field, ...]:
        return (
            Field("Nsp Total", "nsp_total", self.spec.nsps),
            Field("Nsp Free", "nsp_free", self.spec.nsps),
            Field("Last 100ms Average Dram Bw", "dram_bw_kbps", 0, " KBps"),
            Field("MCID Total", "mcid_total", _MULTICAST_IDS),
            Field("MCID Free", "mcid_free", _MULTICAST_IDS),
            Field("Semaphore Total", "semaphore_total", _SEMAPHORES),
            Field("Semaphore Free", "semaphore_free", _SEMAPHORES),
            Field("Constants Loaded", "constants_loaded", 0),
            Field("Constants In-Use", "constants_in_use", 0),
            Field("Networks Loaded", "networks_loaded", 0),
            Field("Networks Active", "networks_active", 0),
            Field("NSP Frequency(Mhz)", "nsp_frequency_mhz", self.nsp_mhz),
            Field("DDR Frequency(Mhz)", "ddr_frequency_mhz"),
            Field("COMPNOC Frequency(Mhz)", "compnoc_frequency_mhz"),
            Field("MEMNOC Frequency(Mhz)", "memnoc_frequency_mhz"),
            Field("SYSNOC Frequency(Mhz)", "sysnoc_frequency_mhz"),
        )

    def _board(self) -> tuple[Field, ...]:
        return (
            Field("Metadata Version", "metadata_version"),
            Field("NNC Command Protocol Version", "nnc_command_protocol_version"),
            Field("SBL Image", "sbl_image"),
            Field("PVS Image Version", "pvs_image_version"),
            Field("NSP Defective PG Mask", "nsp_defective_pg_mask"),
            Field("Sku Type", "sku_type", _SKU_TYPES[self.spec.sku]),
            Field("Board serial", "board_serial"),
            Field("SoC temperature(degree C)", "soc_temperature_c", self.idle_c),
            Field("Board power(Watts)", "board_power_w", round(self.idle_w, 1)),
            Field("TDP Cap(Watts)", "tdp_cap_w", round(self.cap_w, 1)),
        )


def cards_of(spec: DeviceSpec) -> tuple[Card, ...]:
    """One for each SoC of the board."""
    return tuple(Card(qid, spec) for qid in range(spec.socs))
