# `make demo` and `make test` do all their own set-up: Python 3.11 and make are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CORES := $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')
# One more than there are cores: tests often wait for another process.
WORKERS ?= $(shell expr $(CORES) + 1)

.PHONY: help demo quick test soak frames lint generate clean
.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## install and run a short tour
	@bash docs/tour.sh $(abspath $(BIN))

quick: lint ## lint, types, tidy and unit tests, in under a minute
	$(BIN)/pytest -n $(CORES) -q -m "not soak and not slow" tests/tidy tests/unit

test: lint ## everything but soak, as in CI
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not soak"

soak: $(INSTALLED) ## everything, with more rounds; hours
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

frames: $(INSTALLED) ## tests with pandas and polars, which are no part of the environment
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)/frames \
	  pandas==3.1.1 polars==2.1.0 polars-runtime-32==2.1.0 python-dateutil==4.0.0
	PYTHONPATH=$(abspath $(VENV))/frames $(BIN)/pytest -n0 -q tests/contract/test_frames.py

lint: $(INSTALLED) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

generate: $(INSTALLED) ## completions and manual pages, from the command tree
	$(BIN)/python -m omnigraph_cli.generate

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "OmniGraph needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	$(BIN)/python -m compileall -q omnigraph_core omnigraph_cli
	@touch $@

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
