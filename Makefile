# `make demo` and `make test` do all their own set-up: Python 3.11 and make are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# One more than there are cores: tests often wait for another process.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

.PHONY: demo test soak lint generate clean

demo: $(INSTALLED)
	@bash docs/tour.sh $(abspath $(BIN))

test: lint
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not soak"

soak: $(INSTALLED)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Completions and manual pages, from the command tree.
generate: $(INSTALLED)
	$(BIN)/python -m omnigraph_cli.generate

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "OmniGraph needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	$(BIN)/python -m compileall -q omnigraph_core omnigraph_cli
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
