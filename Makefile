# Every target sets itself up: a virtual environment in .venv, made again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto
ARGS ?=

.PHONY: help bench test test-optimized check format hardware vm probe doctor clean

help:
	@echo "make bench            what this machine does, beside numpy      (ARGS='--quick --json out.json')"
	@echo "make test             the tests, then once more under python -O (ARGS='-k matmul')"
	@echo "make check            ruff, mypy --strict, import-linter"
	@echo "make hardware         the tests that need a device, with the reason for each one skipped"
	@echo "make vm               the driver in a Linux guest around a software GPU (docs/vm.md)"
	@echo "make probe doctor     which devices are usable, and what the machine lacks for the others"

# A Python without ensurepip gets an environment without pip, filled by the pip outside it.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --clear --without-pip $(VENV)

define install
	if [ -x $(BIN)/pip ]; then $(BIN)/python -m pip install --quiet -e "$(1)"; \
	else $(PYTHON) -m pip --python $(BIN)/python install --quiet -e "$(1)"; fi
	@touch $@
endef

$(VENV)/core.stamp: pyproject.toml | $(BIN)/python
	$(call install,.)

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(call install,.[dev])
	@touch $(VENV)/core.stamp

bench: $(VENV)/core.stamp
	$(BIN)/python bench.py $(ARGS)

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)
	$(MAKE) test-optimized

test-optimized: $(VENV)/dev.stamp
	$(BIN)/python -O -m pytest -n $(WORKERS) $(ARGS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hardware: $(VENV)/dev.stamp
	$(BIN)/python -m pytest tests/hardware -rs $(ARGS)

vm: $(VENV)/dev.stamp
	$(BIN)/python -m tests.vm $(ARGS)

probe doctor: $(VENV)/core.stamp
	$(BIN)/python -m drivers.$@ $(ARGS)

clean:
	rm -rf $(VENV) .vm build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
