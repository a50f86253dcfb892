"""`qaic-util-sim`: its options, what scripts read of the listing, the published SKU table."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.target import Sku
from configurator.errors import UsageError
from configurator.qaic_util.app import FAILED, INTERRUPTED, OK, invoke
from configurator.qaic_util.flags import BY_NAME, FLAGS
from configurator.qaic_util.help import USAGE, help_text
from configurator.vendor_cli.flag import Effect
from configurator.vendor_cli.getopt import UnknownOptionError, parse

ROOT = Path(__file__).parents[3]
Said = pytest.CaptureFixture[str]

VALUED = {
    "d": (("0", "3"), ("", "a", "-1")),
    "t": (("1", "60"), ("", "0", "1.5")),
    "f": (("Board serial==X", "Status == Ready"), ("", "Status", "Status=Ready", "==X", "A==")),
    "j": (("out.json", "/tmp/a=b"), ("",)),
}
BARE = ("q", "a", "s", "h", "help")

# The Architecture page of the SDK and MLPerf's system descriptions: NSPs, GiB, SoCs, PCIe lanes.
PUBLISHED_CARDS = {
    Sku.STD: (14, 16, 1, 8),
    Sku.PRO: (16, 32, 1, 8),
    Sku.ULTRA: (16, 32, 4, 8),
    Sku.LITE: (9, 8, 1, 8),
    Sku.DM2: (16, 16, 1, 4),
    Sku.DM2_14: (14, 8, 1, 4),
    Sku.DM2E: (8, 8, 1, 4),
    Sku.DM2E_9: (9, 8, 1, 4),
}
# The lines of the vendor's open tool, in its order.
LINES = (
    *("Status", "PCI Address", "PCI Info", "Max Link Speed", "Max Link Width"),
    *("Current Link Speed", "Current Link Width", "Dev Link", "HW Version", "HW Serial"),
    *("FW Version", "FW QC_IMAGE_VERSION", "FW OEM_IMAGE_VERSION", "FW IMAGE_VARIANT"),
    *("FW Features", "NSP Version", "NSP QC_IMAGE_VERSION", "NSP OEM_IMAGE_VERSION"),
    *("NSP IMAGE_VARIANT", "Dram Total", "Dram Free", "Dram Fragmentation", "Vc Total"),
    *("Vc Free", "Pc Total", "Pc Reserved", "Nsp Total", "Nsp Free"),
    *("Last 100ms Average Dram Bw", "MCID Total", "MCID Free", "Semaphore Total"),
    *("Semaphore Free", "Constants Loaded", "Constants In-Use", "Networks Loaded"),
    *("Networks Active", "NSP Frequency(Mhz)", "DDR Frequency(Mhz)"),
    *("COMPNOC Frequency(Mhz)", "MEMNOC Frequency(Mhz)", "SYSNOC Frequency(Mhz)"),
    *("Metadata Version", "NNC Command Protocol Version", "SBL Image", "PVS Image Version"),
    *("NSP Defective PG Mask", "Sku Type", "Board serial", "SoC temperature(degree C)"),
    *("Board power(Watts)", "TDP Cap(Watts)"),
)


@pytest.fixture(autouse=True)
def no_card_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIC_SKU", raising=False)


def listing(capsys: Said, *arguments: str) -> str:
    assert invoke(["-q", *arguments]) == OK
    return capsys.readouterr().out


def refused(capsys: Said, *arguments: str) -> str:
    assert invoke(arguments) == FAILED
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("qaic-util-sim: ")
    assert err.count("\n") == 1
    return err


def test_the_table_has_the_documented_options_and_no_others() -> None:
    assert sorted(BY_NAME) == sorted([*VALUED, *BARE])


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in VALUED for v in VALUED[n][0]])
def test_a_good_value_is_taken_in_every_form(name: str, value: str) -> None:
    for arguments in ([f"-{name}={value}"], [f"--{name}={value}"], [f"-{name}", value]):
        assert parse(arguments, BY_NAME).text(f"-{name}") == value


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in VALUED for v in VALUED[n][1]])
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"-{name}="):
        parse([f"-{name}={value}"], BY_NAME)


@given(argument=st.text(min_size=1))
def test_any_other_argument_is_answered_as_getopt_does(argument: str) -> None:
    name = argument.lstrip("-").partition("=")[0]
    if name in BY_NAME or argument[1:2] in VALUED:
        return
    with pytest.raises(UnknownOptionError):
        parse([argument], BY_NAME)


def test_help_lists_every_option_and_its_lines_fit() -> None:
    words = help_text().replace(",", " ").replace("=", " ").split()
    assert {name for flag in FLAGS for name in flag.names} <= set(words)
    assert max(map(len, help_text().splitlines())) <= 99
    assert help_text().startswith(USAGE)
    for flag in FLAGS:
        assert bool(flag.remark) == (flag.effect is Effect.REFUSED)


@pytest.mark.parametrize("sku", list(Sku))
def test_a_card_is_listed_as_published(
    sku: Sku, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIC_SKU", sku.value)
    nsps, ddr_gib, socs, lanes = PUBLISHED_CARDS[sku]
    blocks = re.split(r"^QID (\d+)\n", listing(capsys), flags=re.MULTILINE)[1:]
    assert blocks[::2] == [str(qid) for qid in range(socs)]
    for block in blocks[1::2]:
        lines = [re.fullmatch(r"\t([^:]+):(\S.*)", line) for line in block.splitlines()]
        fields = {found[1]: found[2] for found in lines if found}
        assert tuple(fields) == LINES
        assert fields["Nsp Total"] == fields["Nsp Free"] == str(nsps)
        assert fields["Dram Total"] == fields["Dram Free"] == f"{ddr_gib * 1024} MB"
        assert fields["Max Link Width"] == fields["Current Link Width"] == str(lanes)


def test_a_script_finds_a_card_that_it_may_use(capsys: Said) -> None:
    """What the published benchmarks check before a run."""
    text = listing(capsys)
    assert re.search(r"Status:\s*(\w+)", text)[1] == "Ready"  # type: ignore[index]
    assert re.search(r"Sku Type:(.*)", text)[1] == "PCIe"  # type: ignore[index]
    temperature = re.search(r"SoC temperature\(degree C\):\s*(\d+)", text)
    assert temperature is not None
    assert 0 < int(temperature[1]) < 65  # above, they wait for the card to cool down


def test_what_only_a_real_card_has_is_said(capsys: Said) -> None:
    assert invoke(["-q"]) == OK
    out, err = capsys.readouterr()
    for name in ("Board serial", "FW Version", "PCI Address", "HW Serial"):
        assert f"\t{name}:N/A\n" in out
    assert err.startswith("simulated card (std)")
    assert err.count("\n") == 1


def test_json_says_the_same(capsys: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIC_SKU", "ultra")
    target = tmp_path / "cards.json"
    text = listing(capsys)
    assert listing(capsys, "-j", str(target)) == ""
    infos = json.loads(target.read_text())["device_info"]
    assert [info["qid"] for info in infos] == [0, 1, 2, 3]
    assert infos[0]["nsp_total"] == infos[0]["nsp_free"] == 16
    assert (infos[0]["dev_status"], infos[0]["sku_type"]) == ("Ready", "PCIe Ultra")
    assert infos[0]["board_serial"] is None
    shown = [line.partition(":")[2] for line in text.splitlines() if line.startswith("\t")]
    held = ["N/A" if v is None else str(v) for i in infos for k, v in i.items() if k != "qid"]
    assert len(shown) == len(held)
    assert all(long.startswith(short) for long, short in zip(shown, held, strict=True))


def test_cards_are_chosen_by_number_and_by_line(
    capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIC_SKU", "ultra")
    assert re.findall(r"QID \d", listing(capsys, "-d", "2", "-d0", "-d=2")) == ["QID 2", "QID 0"]
    assert listing(capsys, "-f", "nsp total == 16").count("QID") == 4
    assert "no card" in refused(capsys, "-q", "-f", "Nsp Total==14")
    assert "no line 'Nsp'" in refused(capsys, "-q", "-f", "Nsp==16")
    assert "4 SoCs, QID 0 to 3" in refused(capsys, "-q", "-d", "4")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "give -q"),
        ("-j file", "give -q"),
        ("-q -t 1", "leave out"),
        ("-a", "-a: a simulated card"),
        ("-s", "-s: a simulated card"),
        ("-q -x", "unrecognized option '-x'"),
        ("-q -d", "requires an argument"),
        ("-q -j none/such/file", "none/such/file: No such file"),
    ],
)
def test_what_cannot_be_is_one_line(line: str, words: str, capsys: Said) -> None:
    assert words in refused(capsys, *line.split())


def test_an_unknown_card_is_refused(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIC_SKU", "big")
    assert "AIC_SKU=big: unknown card; known: std" in refused(capsys, "-q")


def test_a_table_comes_again_until_it_is_stopped(
    capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    assert invoke(["-t", "7"]) == INTERRUPTED
    lines = capsys.readouterr().out.splitlines()
    assert waits == [7, 7, 7]
    assert len(lines) == 6
    assert lines[0].split()[0] == "QID"
    assert lines[1].split()[:4] == ["0", "0/14", "0/0", "0/16384"]


LOADED = """
import sys
from configurator.qaic_util.app import invoke
assert invoke(sys.argv[1:]) == 0
print("\\n" + " ".join(sorted(sys.modules)))
"""


@pytest.mark.parametrize("line", ["-h", "-q"])
def test_nothing_is_loaded_that_a_listing_does_not_need(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, line], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {"onnx", "numba", "optuna", "pandas", "sqlalchemy", "matplotlib", "typer"}
    assert heavy.isdisjoint(done.stdout.splitlines()[-1].split())
