# SPDX-License-Identifier: MIT
# What a newcomer types. Every target works from a fresh clone on Debian 12, as root or not.
#
#   make run          set up, run the thesis's tunnel experiment (quick form), write its report
#   make test         set up with the test tools, then every check there is
#   make fast         lint, and the tests without a machine
#   make lint         the checkers alone
#   make test-vagrant `vagrant up` for real, and the README in there
#   make bench        how fast the lab is, as ratios
#   make validate     does the path do what a run says, and do flows behave on it as published?
#   make pinned       does the lab still do what it did? (run names, help, every file of short runs)
#   make errors       write down what is said about each input of tests/errors
#   make results      the site's pages from result folders, docs/results.md and the docs' tables
#   make catalogue    every experiment's quick form, and one report of all (FORM= for the full)
#   make kernel       build the sandbox's kernel
#   make wheel        one file that has everything, in dist/: pip install it anywhere
#   make wheel-sources  the sources to offer beside it
#   make doctor       what is there, what is missing
#   make clean        delete results and caches in this folder

.DEFAULT_GOAL := run
.PHONY: run test fast bench validate catalogue results kernel doctor clean setup setup-test
.PHONY: wheel wheel-sources
.PHONY: lint check-format check-python check-gofmt unit unit-fast beside-unit go-test go-fuzz
.PHONY: vagrant test-vagrant fuzz pinned pinned-write errors

CACHE := $(shell python3 -P -c 'import sys; sys.path.insert(0, "."); \
	from gostlab.install import locate; print(locate.cache_folder())')
# The environment that the set-up makes; this machine's Python before that.
PYTHON = $(or $(wildcard $(CACHE)/python/bin/python),/usr/bin/python3)
# The set-up's own Go: one compiler for everyone.
GO = $(or $(shell command -v /usr/bin/go || command -v go),$(CACHE)/build-tools/bin/go)
TOOLS = $(CACHE)/tools/bin
# A count, not a time: on a busy machine Go's fuzzer mistakes the end of its time for a failure
# (golang/go#75804).
FUZZ_EXECS := 40000
export GOTOOLCHAIN := local
# Where each ./lab that a test calls compiled the lab anew, the tests would take an eighth longer.
unexport PYTHONDONTWRITEBYTECODE

setup:
	@./lab setup

setup-test:
	@./lab setup --with test

# A run that failed (exit status 1) is in the report too, as failed. Some that are invalid (3) are
# a result: one CPU does not carry the real clock's 2 Gbit/s everywhere, and the report says so.
run:
	@./lab setup --for thesis-tunnel --quick
	@./lab run thesis-tunnel --quick; status=$$?; \
	case $$status in 0|1|3) ;; *) exit $$status;; esac; \
	./lab report thesis-tunnel && [ $$status -ne 1 ]

# All of them, even when one fails: the whole list is worth more than its first line. The others run
# beside the first of the unit tests, which draw figures and are on no clock, and report at the end.
test: setup-test
	@$(MAKE) --no-print-directory --keep-going -j2 unit beside-unit

beside-unit:
	@said=$$($(MAKE) --no-print-directory --keep-going -j1 lint go-test go-fuzz vagrant 2>&1); \
	status=$$?; \
	printf '\n%s\n' "$$said"; exit $$status

bench:
	@./lab setup --with bench --with dask
	@$(PYTHON) -m tools.bench

# First whether the path has its rate, delay and loss, then whether congestion controls behave on it
# as published.
validate: setup
	$(PYTHON) -m pytest tests/guest/test_emulation.py
	@./lab validate

# tests/data/pinned/: compare it, or write it anew in the commit that means to change behaviour.
pinned:
	@$(PYTHON) -m tools.pin_behaviour check

pinned-write:
	@$(PYTHON) -m tools.pin_behaviour write

# tests/errors/: what is said about each bad input, written anew; the diff is the review.
errors:
	@$(PYTHON) -m tools.remake_errors

FORM := --quick
EXPERIMENTS = $(basename $(notdir $(wildcard experiments/*.yaml)))
catalogue: setup
	@began=$$(date +%s); \
	./lab run $(EXPERIMENTS) $(FORM); status=$$?; \
	case $$status in 0|1|3) ;; *) exit $$status;; esac; \
	echo "the whole catalogue: $$((($$(date +%s) - began) / 60)) min"; \
	./lab catalogue && ./lab report && [ $$status -ne 1 ]

# The site's pages of everything that has been run, and what of it stands in docs/.
results:
	@./lab setup --with site
	$(PYTHON) -m tools.results_pages --site
	$(PYTHON) -m tools.results_pages --docs

kernel:
	@./lab setup --only tools --only kernel

# Its own tools, not the machine's: pip comes with the test tools.
wheel:
	@./lab setup --only tools --only packages --only python --only kernel --only relay --only root \
		--only test-tools
	@$(PYTHON) -m tools.wheel dist

# What is to be offered beside it: its licences say so.
wheel-sources:
	@$(PYTHON) -m tools.wheel dist sources

doctor:
	@./lab doctor

# SC2016: kernel/build.sh has a $ that is make's, not the shell's.
lint: check-format check-python check-gofmt
	$(TOOLS)/mypy
	PATH="$$PATH:$(TOOLS)" shellcheck --exclude=SC2016 lab kernel/build.sh \
		kernel/precompiled/cc .ci/run .ci/phases \
		gostlab/guest/commands_prelude.sh \
		.ci/action/cache-key .ci/action/install .ci/action/run .ci/action/summary
	cd tunnel && $(GO) vet ./...

check-format:
	$(TOOLS)/ruff format --check .

check-python:
	$(TOOLS)/ruff check .

check-gofmt:
	test -z "$$(gofmt -l tunnel | tee /dev/stderr)"

# On all CPUs where pytest-xdist is there; a file's tests stay together and share what they build.
# One more than there are CPUs: a test that waits leaves its own to another.
PARALLEL = $(shell $(PYTHON) -c 'import xdist' 2>/dev/null && \
	echo "-n $$(($$(nproc) + 1)) --dist loadfile")

unit:
	$(PYTHON) -m pytest -q $(PARALLEL)

# What needs neither kernel nor root, the checkers beside it: what takes longer, and GOST, are
# left to `test`.
fast:
	@$(MAKE) --no-print-directory --keep-going -j2 unit-fast lint

# In memory where it has a GB free: before a disk's file system makes one of these many small files
# it looks past all that were deleted lately, a sixth of the CPU time.
unit-fast:
	@free=$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1); \
	[ "$${free:-0}" -lt 1000000 ] || TMPDIR=/dev/shm; \
	export TMPDIR=$$(mktemp -d -p "$${TMPDIR:-/tmp}"); \
	trap 'rm -rf "$$TMPDIR"' EXIT INT TERM; \
	$(PYTHON) -m pytest -q -m 'not sandbox and not slow and not real_gost' $(PARALLEL)

go-test:
	cd tunnel && $(GO) test -race ./...

# A fuzz run takes one target at a time.
go-fuzz:
	cd tunnel && for target in $$($(GO) test -list '^Fuzz' . | grep '^Fuzz'); do \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_EXECS)x . || exit 1; done

# Bad input for every reader: GOSTLAB_FUZZ cases in all.
fuzz:
	GOSTLAB_FUZZ=$${GOSTLAB_FUZZ:-10000} $(PYTHON) -m pytest -q $(PARALLEL) tests/fuzz

vagrant:
	@if command -v vagrant >/dev/null; then vagrant validate; \
	else echo "vagrant is not installed: its file is checked only where it is"; fi

test-vagrant:
	@$(PYTHON) tests/install/vagrant_up.py

clean:
	rm -rf results .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
