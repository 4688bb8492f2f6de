# Every target makes its own .venv from nothing but python3 (3.11 or later); uv is used when it is there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export LC_ALL := C.UTF-8
export PYTHONUTF8 := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without bytecode on disk each of the hundreds of processes of the tests compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-scale test-bridges lint bench generate clean
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
	$(BIN)/python -m pytest -m "scale or slow" -n 2 --dist worksteal

# Packages that are too heavy for .venv, each set in an environment of its own: verifiers before and
# from 0.4 on cannot be in one. torch is the build without CUDA where its index is reachable.
REAL := tests/bridges/real
TORCH ?= torch==2.13.0
PIP_REAL = -m pip install -q -c constraints.txt -e ".[dev]"

$(VENV)-bridges/ready: pyproject.toml constraints.txt $(REAL)/requirements.txt
	$(PYTHON) -m venv $(VENV)-bridges
	$(VENV)-bridges/bin/python -m pip install -q -U 'pip>=25'
	$(VENV)-bridges/bin/python -m pip install -q --no-deps \
		--extra-index-url https://download.pytorch.org/whl/cpu '$(TORCH)'
	$(VENV)-bridges/bin/python $(PIP_REAL) -r $(REAL)/requirements.txt
	@touch $@

$(VENV)-bridges-legacy/ready: pyproject.toml constraints.txt $(REAL)/requirements-legacy.txt
	$(PYTHON) -m venv $(VENV)-bridges-legacy
	$(VENV)-bridges-legacy/bin/python -m pip install -q -U 'pip>=25'
	$(VENV)-bridges-legacy/bin/python $(PIP_REAL) -r $(REAL)/requirements-legacy.txt
	@touch $@

test-bridges: $(VENV)-bridges/ready $(VENV)-bridges-legacy/ready ## the bridges beside the real packages (2.5 GB)
	$(VENV)-bridges/bin/python -m pytest -m slow -W default $(REAL)
	$(VENV)-bridges-legacy/bin/python -m pytest -m slow -W default $(REAL)/test_verifiers_evaluate.py

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
	rm -rf $(VENV) $(VENV)-bridges $(VENV)-bridges-legacy .mypy_cache .ruff_cache .pytest_cache .hypothesis
