# Everything a person types. `make demo` and `make test` install what they need; nothing else has to be there than
# git, make and python3 with venv.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TABLES := pricing/data/catalog.sqlite planner/throughput/data/measurements.sqlite
PRICE_TEXT := $(wildcard pricing/data/*.csv pricing/data/*.toml pricing/data/offers/*.csv)

.PHONY: help demo set-up test suites test-fast check coverage site lint types imports e2e faults soak fuzz pins lock audit build release sizes shells engine docker slurm machine azurite simulator browser tables fit accuracy absences bench later k80 clean

help:
	@echo "make demo    estimate, then train a small net for real on this machine, then its receipt"
	@echo "make test    lint, types, import rules, unit and contract tests, a sample of the others (12 minutes, with installation)"
	@echo "make test-fast  unit and contract tests of less than a second or so (3 minutes): no containers, no killed launches"
	@echo "make check   all other tests: killed launches, planted defects, containers; CI runs it after make test"
	@echo "make coverage  which lines the unit tests of one package reach (COVERED=pricing), and whether that is enough"
	@echo "make engine  set up Podman as a container engine (root, Debian)"
	@echo "make docker  start Docker beside it, for the tests that hold the contract against Docker (root, Debian)"
	@echo "make shells  install zsh, fish and man, for the tests of completion and of the manual page (root, Debian)"
	@echo "make sizes   install each extra by itself and write its size into docs/installation.md (needs the network)"
	@echo "make slurm   start Slurm with two nodes on loopback, for the tests of providers/slurm (root, Debian)"
	@echo "make machine  boot what a rented machine gets in QEMU, do it harm, and see it off at its deadline (root, Debian, an hour)"
	@echo "make browser install Chromium (root, Debian) and axe-core, for the tests of pages in make check"
	@echo "make e2e     all tests marked e2e: a container plays each cloud's rented machine, every ending and interruption (up to an hour)"
	@echo "make faults  kill a launch at every call and every write, and count what is left; make soak: at random"
	@echo "make fuzz    mutated price lists, commands, job files and run directories: none may end in an unhandled error"
	@echo "make pins    pin what a rented machine installs anew, with hashes (needs the network)"
	@echo "make build   sdist and wheel, and lists of parts (CycloneDX) of what CI and rented machines install"
	@echo "make release  the same, checked and installed in empty environments (needs the network; REHEARSAL=rehearsal: without a tag)"
	@echo "make audit   whether anything that CI installs has a known vulnerability (needs the index's data)"
	@echo "make lock    pin what CI installs, with hashes; make pins: what rented machines install"
	@echo "make absences  1,000 launches that somebody leaves and comes back to, on six doubles"
	@echo "make bench   how fast the command answers, and what a rented machine fetches before its first step"
	@echo "make site    the pages of docs/ as a site with search, in .build/site; without the network once its generator is installed"
	@echo "make k80     train with the last TensorFlow for a K80, on this machine's processor"
	@echo "make fit     fit the throughput model to the measurements; make accuracy: how right it is"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

# Some machines are set not to write byte code: then every start compiles again what it imports, and every run of the
# tests all of theirs (25 s of a processor for each worker). So it is written, and that of what is installed now.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := src/trainplan $(addprefix src/trainplan/,workloads pricing providers planner extensions)

$(VENV)/.plan: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e .
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

# What CI installs is pinned, with the hash of each wheel, for Linux on x86_64 (`make lock`); elsewhere, and with
# `make LOCK= ...`, it is what is newest.
LOCK ?= requirements/ci.txt
FITS_LOCK := $(BIN)/python -c 'import platform, sys; sys.exit((sys.platform, platform.machine()) != ("linux", "x86_64"))'

$(VENV)/.dev: pyproject.toml $(LOCK) | $(BIN)/python
	@if [ -n "$(LOCK)" ] && $(FITS_LOCK); then \
	    $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r $(LOCK) && \
	    $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .; \
	else \
	    $(BIN)/python -m pip install --quiet -e '.[dev,train-cpu,train-jax,convert]'; \
	fi
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@ $(VENV)/.plan

pricing/data/catalog.sqlite: $(PRICE_TEXT) $(wildcard pricing/*.py) | $(VENV)/.plan
	$(BIN)/python -m trainplan.pricing.compile

planner/throughput/data/measurements.sqlite: $(wildcard planner/throughput/data/*.csv) pricing/data/devices.toml planner/throughput/compile.py planner/throughput/columns.py | $(VENV)/.plan
	$(BIN)/python -m trainplan.planner.throughput.compile

tables: $(TABLES)

demo: $(VENV)/.plan tables
	scripts/demo.sh $(BIN)

engine:
	scripts/engine.sh

# After the engine: both install Debian's packages, and Docker takes the base image from Podman.
slurm:
	@scripts/slurm.sh

docker: engine
	scripts/docker.sh

# Its disk is made once; a trial takes 1 to 20 minutes without KVM, mostly waiting for a deadline.
machine: $(VENV)/.dev
	scripts/machine.sh
	MACHINE=true $(BIN)/pytest --numprocesses 5 --maxschedchunk 1 -q tests/e2e/computer

azurite:
	@scripts/azurite.sh

simulator:
	@scripts/iam_simulator.sh

browser:
	@scripts/browser.sh

# Which test belongs to which command: tests/suites.py and the markers in pyproject.toml; tests/README.md explains them.
# What has to be there is installed side by side, and then checked side by side: most of it uses one processor, or waits.
# Elsewhere than in CI, tests that find no engine are skipped, and those that need Azurite or the simulator of
# AWS policies install it where npm is.
BESIDE := --no-print-directory --output-sync --jobs

set-up:
	@$(MAKE) $(BESIDE) 4 $(VENV)/.dev $(if $(filter true,$(CI)),docker azurite simulator browser)

# Libraries of trackers, in an environment of their own: they bring forty packages, and older ones than ours.
TRACKERS := .build/trackers/.installed

$(TRACKERS): requirements/trackers.txt | $(BIN)/python
	$(PYTHON) -m venv .build/trackers
	@if [ -n "$(LOCK)" ] && $(FITS_LOCK); then \
	    .build/trackers/bin/pip install --quiet --no-deps --require-hashes -r requirements/trackers.txt; \
	else \
	    .build/trackers/bin/pip install --quiet mlflow-skinny wandb trackio; \
	fi
	@touch $@

# The programs of places that jobs are exported to, for the same reason.
PLACES := .build/places/.installed

$(PLACES): requirements/places.txt | $(BIN)/python
	$(PYTHON) -m venv .build/places
	@if [ -n "$(LOCK)" ] && $(FITS_LOCK); then \
	    .build/places/bin/pip install --quiet --no-deps --require-hashes -r requirements/places.txt; \
	else \
	    .build/places/bin/pip install --quiet kaggle six huggingface_hub ibm-vpc; \
	fi
	@touch $@

# What builds the site, in an environment of its own: packages that nothing else needs.
SITE := .build/site-env/.installed

$(SITE): requirements/site.txt | $(BIN)/python
	$(PYTHON) -m venv .build/site-env
	@if [ -n "$(LOCK)" ] && $(FITS_LOCK); then \
	    .build/site-env/bin/pip install --quiet --no-deps --require-hashes -r requirements/site.txt; \
	else \
	    .build/site-env/bin/pip install --quiet sphinx furo myst-parser; \
	fi
	@touch $@

site: $(VENV)/.plan $(SITE)
	@scripts/site.sh $(BIN)

# Types are checked beside the tests: that takes one processor half a minute.
test: set-up
	@$(MAKE) $(BESIDE) 4 tables lint imports
	@$(MAKE) --no-print-directory --jobs 2 types suites

suites:
	@scripts/tests.sh $(BIN) "not check"

check: set-up tables $(TRACKERS) $(PLACES)
	@scripts/tests.sh $(BIN) "check and not e2e and not slow_env"
	@$(MAKE) --no-print-directory later

# Do the tests hold on another day, when machines have been retired and every price is old (tests/later.py)?
DAYS_AHEAD ?= 400

later: $(VENV)/.dev tables
	@TMPDIR=$$(scripts/memory.sh) TRAINPLAN_DAYS_AHEAD=$(DAYS_AHEAD) $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -q -rfE \
		-m "not check and not slow and not train and not container" tests/unit tests/hostile

test-fast: $(VENV)/.dev tables
	@TMPDIR=$$(scripts/memory.sh) $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -q -m "not check and not sample and not slow and not train"

# The share of statements and branches that the unit tests of a package have to reach, as measured; without a figure, any.
COVERED ?= pricing
FLOOR_pricing := 90

coverage: $(VENV)/.dev tables
	$(BIN)/coverage run -m pytest -q -m "not check and not slow and not train and not container" tests/unit/$(COVERED)
	$(BIN)/coverage report --include='$(COVERED)/*' --fail-under=$(or $(FLOOR_$(COVERED)),0)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

# With what the tests of the installation install: pip comes with Python, pipx and uv do not.
$(VENV)/.installers: | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet "uv>=0.9" "pipx>=1.7"
	@touch $@

# The shells whose completion make e2e tries; without them those tests are skipped (root, Debian).
shells:
	apt-get update -qq && apt-get install -y -qq bash zsh fish man-db mandoc

e2e: $(VENV)/.dev $(VENV)/.installers tables
	$(BIN)/pytest -m "e2e and not slow_env" --durations=0

# A tenth of these points is among the tests for every provider, and some of these sequences (docs/maintainers/reliability.md).
PROVIDER ?= sim
SOAK_SEQUENCES ?= $(if $(filter sim,$(PROVIDER)),20000,250)

faults: $(VENV)/.dev tables
	@$(BIN)/python -m tests.faults --provider $(PROVIDER) --defects all
	@$(BIN)/python -m tests.drill --provider $(PROVIDER)

soak: $(VENV)/.dev tables
	@$(BIN)/python -m tests.faults.soak --provider $(PROVIDER) --sequences $(SOAK_SEQUENCES)

# Price lists; a fifth as many run directories and a twentieth as many commands. A share of each is among the tests.
FUZZ_INPUTS ?= 100000

fuzz: $(VENV)/.dev tables
	@$(BIN)/python -m tests.fuzz.prices --inputs $(FUZZ_INPUTS)
	@$(BIN)/python -m tests.fuzz.commands --inputs $$(($(FUZZ_INPUTS) / 20))
	@$(BIN)/python -m tests.fuzz.run_directory --inputs $$(($(FUZZ_INPUTS) / 5))

# What a rented machine installs, pinned anew with hashes (scripts/pins.py): after each change of a requirement list.
pins: $(VENV)/.dev tables
	$(BIN)/python -m pip install --quiet "uv>=0.9"
	$(BIN)/python -m scripts.pins

# What CI installs, pinned anew with hashes (scripts/lock.py): after each change of pyproject.toml, and now and then.
lock: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet "uv>=0.9"
	$(BIN)/python -m scripts.lock

audit: $(VENV)/.dev
	@scripts/audit.sh $(BIN)

# How large each extra is, into docs/installation.md.
sizes: $(VENV)/.dev $(VENV)/.installers
	$(BIN)/python -m scripts.extra_sizes --write

build: $(VENV)/.dev tables
	@scripts/build.sh $(BIN)

# What checks a release, in an environment of its own. REHEARSAL=rehearsal asks for no tag.
RELEASE := .build/release-env/.installed

$(RELEASE): requirements/release.txt | $(BIN)/python
	$(PYTHON) -m venv .build/release-env
	@if [ -n "$(LOCK)" ] && $(FITS_LOCK); then \
	    .build/release-env/bin/pip install --quiet --no-deps --require-hashes -r requirements/release.txt; \
	else \
	    .build/release-env/bin/pip install --quiet twine; \
	fi
	@touch $@

release: $(VENV)/.dev tables $(RELEASE)
	@scripts/release.sh $(BIN) .build/release-env/bin $(REHEARSAL)

# Fits the throughput model anew (minutes) and writes what it can and cannot do; `accuracy` writes only the latter.
fit: $(VENV)/.dev tables
	$(BIN)/python -m scripts.fit

accuracy: $(VENV)/.dev tables
	$(BIN)/python -m scripts.fit --report-only

absences: $(VENV)/.dev tables
	$(BIN)/python -m benchmarks.absences --verbose

bench: $(VENV)/.dev tables
	$(BIN)/python -m benchmarks.start_up
	$(BIN)/python -m benchmarks.catalog_scale
	$(BIN)/python -m benchmarks.first_step
	rm -rf .build/ten-thousand && $(BIN)/python -m benchmarks.ten_thousand_runs make .build/ten-thousand
	$(BIN)/python -m benchmarks.ten_thousand_runs measure .build/ten-thousand

k80: $(VENV)/.dev
	TRAINPLAN_SLOW_ENV=1 $(BIN)/pytest -m slow_env tests/e2e/test_k80.py

clean:
	rm -rf $(VENV) .build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache $(TABLES)
