# Everything runs in a virtual environment in .venv, made on first use.
#   PYTHON=python3.12   the interpreter that makes it (3.11 or newer)
#   MODEL=path.onnx     the model of `make tune`;  TUNE_FLAGS='--sku pro --trials 100' to pass on

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Without caches of bytecode every start of the tool would compile its libraries again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
MODEL ?= studies/models/resnet50.onnx
STUDY ?= $(basename $(notdir $(MODEL)))
TUNE_FLAGS ?=
PYTEST_FLAGS ?=
BUILD := build

BIN := $(VENV)/bin
STUDY_FLAGS = $(STUDY) --storage sqlite:///$(BUILD)/studies.db
# Stamps: newer than the files they came from means that the environment is up to date.
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(DEV) ## make or update the environment in .venv, with the development tools

.PHONY: tune
tune: $(RUNTIME) ## find the best settings for MODEL (default: ResNet-50), draw them, print the commands
	@mkdir -p $(BUILD)
	@$(BIN)/configurator tune $(MODEL) --study $(STUDY_FLAGS) $(TUNE_FLAGS)
	@echo
	@$(BIN)/configurator plot $(STUDY_FLAGS) --out $(BUILD)/$(STUDY)
	@echo
	@$(BIN)/configurator export $(STUDY_FLAGS)

.PHONY: test
test: $(DEV) ## run the tests (PYTEST_FLAGS='-k store' to choose)
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 $(PYTEST_FLAGS)

.PHONY: lint
lint: $(DEV) ## check style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run ruff format ."; exit 1; }

.PHONY: type
type: $(DEV) ## check types
	@$(BIN)/mypy

.PHONY: imports
imports: $(DEV) ## check which package may import which
	@$(BIN)/lint-imports --no-cache

.PHONY: check
check: lint type imports test ## all that CI checks

.PHONY: bench
bench: $(DEV) ## measure and print the project's figures
	@$(BIN)/python -m studies.bench

.PHONY: clean
clean: ## remove outputs and caches; the environment stays
	@rm -rf $(BUILD) dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find compiler configurator runtime_sim studies tests -name __pycache__ -prune -exec rm -rf {} +

# $(call install,WHAT,REQUIREMENT): of pip's output only errors and downloads worth a wait are shown.
# pip's own byte-compiling takes longer than the rest: what runs is compiled as it is loaded.
define install
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(check_python); \
		echo "Making a virtual environment in $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "Installing $(1) (a minute or two when they must be downloaded)"
	@$(BIN)/python -m pip install --no-compile --disable-pip-version-check --no-input \
		--progress-bar off --constraint constraints.txt --editable $(2) 2>&1 \
		| tee $(VENV)/install.log \
		| awk '/^ +Downloading .* MB\)$$|^ *ERROR|^ *error:/ { print; fflush() }' \
		|| { echo "make: the installation failed; all of pip's output is in $(VENV)/install.log" >&2; exit 1; }
endef

define check_python
command -v $(PYTHON) >/dev/null || { echo "make: no '$(PYTHON)' found; name a Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $$($(PYTHON) -V) is too old, 3.11 is needed; name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) has no venv module; install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
endef

$(RUNTIME): pyproject.toml constraints.txt
	$(call install,the packages,.)
	@touch $@

$(DEV): pyproject.toml constraints.txt
	$(call install,the packages and the development tools,'.[dev]')
	@echo "Compiling to bytecode, so that every start is quick"
	@$(BIN)/python -m compileall -q -j 0 -x '/(tests?|pip|setuptools)/' $(VENV)/lib >/dev/null || true
	@touch $(RUNTIME) $@
