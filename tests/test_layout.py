from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("compiler", "runtime_sim", "configurator", "studies")
HEAVY = ("onnx", "numba", "optuna", "pandas", "sqlalchemy", "matplotlib")

LOADED_AFTER_IMPORT = """
import json, sys
import configurator.cli
print(json.dumps(sorted(sys.modules)))
"""

LOADED_AFTER_HELP = """
import json, sys
sys.argv = ["configurator", "--help"]
from configurator.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + json.dumps(sorted(sys.modules)))
"""

LOADED_WITH_SIMULATOR = """
import json, sys
from compiler.target import Sku, device
from runtime_sim.simulator import SimulatorBackend
SimulatorBackend(device(Sku.STD))
print(json.dumps(sorted(sys.modules)))
"""


def modules_of(package: str) -> list[str]:
    files = sorted((ROOT / package).rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    return [name.removesuffix(".__init__") for name in names]


def loaded_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_can_be_imported(package: str) -> None:
    modules = modules_of(package)
    assert package in modules
    for name in modules:
        importlib.import_module(name)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_marked_as_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize(
    "program", [LOADED_AFTER_IMPORT, LOADED_AFTER_HELP], ids=["import", "help"]
)
def test_start_up_loads_no_heavy_library(program: str) -> None:
    loaded = loaded_by(program)
    assert "configurator.cli" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_a_card_that_runs_nothing_needs_no_compiled_loop() -> None:
    loaded = loaded_by(LOADED_WITH_SIMULATOR)
    assert "runtime_sim.simulator" in loaded
    assert loaded.isdisjoint(HEAVY)
