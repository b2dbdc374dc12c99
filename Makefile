# `make demo` and `make test` are each enough on a fresh machine with Python >= 3.11.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# torch goes first: a bare requirement would bring gigabytes of CUDA to a machine without
# a GPU. Override TORCH to choose another build.
TORCH ?= $(shell command -v nvidia-smi >/dev/null 2>&1 && echo "torch>=2.6" || echo "torch==2.13.0")
PYTEST_ARGS ?=

.PHONY: demo test lint format clean

demo: $(VENV)/.demo
	$(BIN)/python -m skmethods

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet "$(TORCH)"
	touch $@

# The tour's peer for symbolic regression, pyoperon, is in an extra.
$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install --quiet --editable ".[symbolic]"
	touch $@

$(VENV)/.test: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@ $(VENV)/.demo

$(VENV)/.lint: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install --quiet --editable ".[lint]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
