# Everything a person types. `make demo` and `make test` install what they need; nothing else has to be there than
# git, make and python3 with venv.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TABLES := pricing/data/catalog.sqlite planner/throughput/data/measurements.sqlite
PRICE_TEXT := $(wildcard pricing/data/*.csv pricing/data/*.toml pricing/data/offers/*.csv)

.PHONY: help demo test lint types imports tests e2e faults soak fuzz engine azurite tables fit accuracy bench k80 clean

help:
	@echo "make demo    estimate, then train a small net for real on this machine, then its receipt"
	@echo "make test    lint, types, import rules and all tests"
	@echo "make engine  set up Podman as a container engine (root, Debian)"
	@echo "make e2e     a container plays each cloud's rented machine: every ending, every interruption (up to an hour)"
	@echo "make faults  kill a launch at every call and every write, and count what is left; make soak: at random"
	@echo "make fuzz    mutated price lists, 100,000 of them: none may end in an unhandled error"
	@echo "make bench   how fast the command answers, and what a rented machine fetches before its first step"
	@echo "make k80     train with the last TensorFlow for a K80, on this machine's processor"
	@echo "make fit     fit the throughput model to the measurements; make accuracy: how right it is"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

# Byte code is compiled here since some machines are set not to write it, and then every start would compile again.
PACKAGES := workloads pricing providers planner

$(VENV)/.plan: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e .
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e '.[dev,train-cpu,train-jax]'
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@ $(VENV)/.plan

pricing/data/catalog.sqlite: $(PRICE_TEXT) $(wildcard pricing/*.py) | $(VENV)/.plan
	$(BIN)/python -m pricing.compile

planner/throughput/data/measurements.sqlite: $(wildcard planner/throughput/data/*.csv) planner/throughput/compile.py | $(VENV)/.plan
	$(BIN)/python -m planner.throughput.compile

tables: $(TABLES)

demo: $(VENV)/.plan tables
	scripts/demo.sh $(BIN)

engine:
	scripts/engine.sh

azurite:
	@scripts/azurite.sh

# What has to be there is installed side by side, and then checked side by side: most of it uses one processor, or waits.
# Elsewhere than in CI, tests that find no engine are skipped, and those that need Azurite install it where npm is.
BESIDE := --no-print-directory --output-sync --jobs

test:
	@$(MAKE) $(BESIDE) 3 $(VENV)/.dev $(if $(filter true,$(CI)),engine azurite)
	@$(MAKE) $(BESIDE) 4 tables lint types imports
	@$(MAKE) --no-print-directory tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

# Containers are tested one after another, as they share an engine, and beside all other tests, as they mostly wait: what they
# say comes at the end. A whole run on a rented machine for each store, and two of its endings, are among these; what takes
# more minutes is in `make e2e` and `make k80`.
tests: $(VENV)/.dev tables
	@mkdir -p .build
	@$(BIN)/pytest -m "container and not e2e and not slow_env" > .build/containers.log 2>&1 & containers=$$!; \
	$(BIN)/pytest --numprocesses auto --dist loadfile -m "not container and not e2e and not slow_env"; others=$$?; \
	wait $$containers; containers=$$?; cat .build/containers.log; exit $$((others + containers))

e2e: $(VENV)/.dev tables
	$(BIN)/pytest -m "not slow_env" --durations=0 tests/e2e

# A tenth of these points is among the tests for every provider, and some of these sequences (docs/reliability.md).
PROVIDER ?= sim
SOAK_SEQUENCES ?= $(if $(filter sim,$(PROVIDER)),20000,250)

faults: $(VENV)/.dev tables
	@$(BIN)/python -P -m tests.faults --provider $(PROVIDER) --defects all

soak: $(VENV)/.dev tables
	@$(BIN)/python -P -m tests.faults.soak --provider $(PROVIDER) --sequences $(SOAK_SEQUENCES)

# A twentieth of these are among the tests.
FUZZ_INPUTS ?= 100000

fuzz: $(VENV)/.dev tables
	@$(BIN)/python -P -m tests.fuzz.prices --inputs $(FUZZ_INPUTS)

# Fits the throughput model anew (minutes) and writes what it can and cannot do; `accuracy` writes only the latter.
fit: $(VENV)/.dev tables
	$(BIN)/python -m scripts.fit

accuracy: $(VENV)/.dev tables
	$(BIN)/python -m scripts.fit --report-only

bench: $(VENV)/.dev tables
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/first_step.py

k80: $(VENV)/.dev
	TRAINPLAN_SLOW_ENV=1 $(BIN)/pytest -m slow_env tests/e2e/test_k80.py

clean:
	rm -rf $(VENV) .build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache $(TABLES)
