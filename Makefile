# Every target makes its own .venv from nothing but python3 (3.11 or later); uv is used when it is there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export LC_ALL := C.UTF-8
export PYTHONUTF8 := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without bytecode on disk each of the hundreds of processes of the tests compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-scale lint bench generate clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -e 's/:.*## /\t/' | expand -t 12

$(VENV)/base: pyproject.toml constraints.txt
	@scripts/venv "$(PYTHON)" "$(VENV)" "."
	@touch $@

$(VENV)/dev: $(VENV)/base
	@scripts/venv "$(PYTHON)" "$(VENV)" ".[dev]"
	@touch $@

$(VENV)/bench: $(VENV)/dev
	@scripts/venv "$(PYTHON)" "$(VENV)" ".[dev,bench]"
	@touch $@

demo: $(VENV)/base ## an evaluation and a training run on the embedded platform, start to end
	@$(BIN)/prime-async demo

test: $(VENV)/dev ## all tests but those of test-scale
	$(BIN)/python -m pytest -n 3 --dist worksteal

test-scale: $(VENV)/bench ## minutes of load, and the built package in a clean environment
	$(BIN)/python -m pytest -m "scale or slow"

lint: $(VENV)/dev ## format, lint, types, layers, generated code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m prime_sync._generate --check

generate: $(VENV)/dev ## write the sync facade, the command reference and the help pages again
	$(BIN)/python -m prime_sync._generate
	$(BIN)/python -m prime_async_cli.reference docs/cli.md cli/prime_async_cli/help_pages.txt

bench: $(VENV)/bench ## ours beside the official packages and a floor, in one run
	$(BIN)/python -m benchmarks

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
