# The verbs of this project. `make` alone lists them.

SHELL := bash
PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
BIN := .venv/bin
STAMP := .venv/installed

# The reference data that the project's own tests and benchmarks read, where the folder is there.
ifneq ($(wildcard ../shared/.),)
export TENFOLD_DATA ?= $(abspath ../shared)
endif

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all lint bench clean

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

install: $(STAMP)  ## make .venv with the command .venv/bin/tenfold

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tenfold needs Python 3.11 or later: make install PYTHON=...")'
	@echo "Installing into .venv: the first time takes a minute or more, most of it for torch"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,demo]'
	@touch $@

demo: install  ## compress a small sentence model and show what came out
	$(BIN)/tenfold demo

test: lint  ## what CI runs: lint, types and every quick test
	$(BIN)/python -m pytest -n 2

test-all: lint  ## the same with the slow tests: real models, minutes of work
	$(BIN)/python -m pytest -n 2 -m ""

lint: install  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: install  ## measure: writes what the published numbers come from
	$(BIN)/python benchmarks/speed.py --parts encoder,mixed
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/compress.py --json benchmarks/results/compress.json

clean:  ## remove .venv, caches and builds
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
