# Everything runs in .venv, made from nothing but python3. `make demo` and `make test` need no other step first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
TEST_STAMP := $(VENV)/.installed-test
DEV_STAMP := $(VENV)/.installed-dev

# Tests of the pages, their examples and the package are a part of `make check`.
PAGE_TESTS := tests/docs tests/packaging
PYTEST := $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all test-rest libraries mutants fuzz check lint docs static pages examples site bench compare asv asv-compare asv-history asv-site asv-machine
.PHONY: wheel pythons aarch64 clean help

help:  ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 13

demo: $(RUN_STAMP)  ## set up and run the main job: an embedding look-up, checked against NumPy
	$(BIN)/gathernest demo

test: $(TEST_STAMP)  ## set up and run the tests on two processes: minutes; tests/selection.py says what is left out
	$(PYTEST) $(addprefix --ignore=,$(PAGE_TESTS))

test-all: $(DEV_STAMP)  ## run every test, with every combination of its parameters
	$(PYTEST) --all $(addprefix --ignore=,$(PAGE_TESTS))

test-rest: $(DEV_STAMP)  ## run what the last `make test` in this folder left out: after it, with the programs it had not
	$(PYTEST) --rest $(addprefix --ignore=,$(PAGE_TESTS))

# The tests of a library are skipped where it is missing; here none of them is. `ALL=--all` exports the corpus of models,
# whose tests list what this version of torch does not export.
ALL ?=
libraries: $(DEV_STAMP)  ## install every library whose arrays and models gathernest takes, and run their tests beside them all
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e ".[arrays,models,peers]" awkward cython onnxscript scipy "torch==2.13.*"
	$(BIN)/python -m pip check
	$(PYTEST) $(ALL) tests/frameworks tests/interop tests/kernels/c_functions

mutants: $(DEV_STAMP)  ## measure which share of a sample of small errors in the source the tests find; takes an hour
	$(BIN)/pip install -q --disable-pip-version-check -e ".[mutants]"
	$(BIN)/python tests/mutation/mutants.py

fuzz: $(DEV_STAMP)  ## draw twenty times as many random gathers, other ones in every run
	GATHERNEST_TEST_EXAMPLES=20 $(PYTEST) --all tests/oracles

check: lint static docs pages examples site  ## everything CI checks beside the tests

pages: $(DEV_STAMP)  ## test the pages, their examples and the package, and check the benchmarks of asv
	$(PYTEST) --all $(PAGE_TESTS)
	cd asv_bench && ../$(BIN)/asv check --environment existing:../$(BIN)/python

.PHONY: $(wildcard examples/*.py)
$(wildcard examples/*.py): $(DEV_STAMP)
	$(BIN)/python $@ > /dev/null

examples: $(wildcard examples/*.py)  ## run every example

lint: $(DEV_STAMP)  ## style, types, the layers, the workflows of CI, and the budget of lines
	$(BIN)/lint-imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.ci/lines

docs: $(DEV_STAMP)  ## check that the generated pages are up to date (`make docs WRITE=--write` writes them)
	$(BIN)/python docs/generator/generate.py $(WRITE)

static: $(DEV_STAMP)  ## check that asv_bench/static.json says what kernels are compiled to (`WRITE=--write` writes it)
	$(BIN)/gathernest bench --static --against asv_bench/static.json $(WRITE)

site: $(DEV_STAMP)  ## build the pages as a site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml

wheel: $(DEV_STAMP)  ## build the wheel in build/dist, and check its metadata
	rm -rf build/dist build/lib build/bdist.*
	$(BIN)/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/dist .
	$(BIN)/twine check --strict build/dist/*.whl

pythons: wheel  ## install the wheel with every Python that is found, 3.11 with the oldest Numba and NumPy, and run the tests of .ci/pythons
	.ci/pythons build/dist/*.whl

# Tests of machine code. Those of the oracles that only interpret stages, and the one that compiles for each operator version, are left out.
AARCH64_TESTS ?= tests/oracles tests/lowering/native tests/kernels/runtime/call_cache/test_found.py \
  tests/lowering/numba/test_intrinsics.py tests/lowering/numba/test_vector_intrinsics.py \
  -k "kernel or not (stage or rejected_or or legal_steps or changing_indices or every_operator_version)"
aarch64: | $(BIN)/python  ## run AARCH64_TESTS on an emulated AArch64 processor; needs Debian 12
	.ci/aarch64 $(AARCH64_TESTS)

bench: $(RUN_STAMP)  ## run the suite beside the peers that are installed
	$(BIN)/gathernest bench

# Benchmarks whose names match $(BENCH); asv_bench/README.md has more.
BENCH ?= .
BASE ?= HEAD^
RANGE ?= HEAD~10..HEAD
ASV = cd asv_bench && ../$(BIN)/asv

asv: asv-machine  ## measure the last commit with asv, and keep the results in asv_bench/results
	$(ASV) run --show-stderr --bench '$(BENCH)' 'HEAD^!'

asv-compare: asv-machine  ## compare the last commit with BASE, round by round, as asv does
	$(ASV) continuous --interleave-rounds --append-samples --show-stderr --bench '$(BENCH)' $(BASE) HEAD

asv-history: asv-machine  ## measure the commits of RANGE that have no results, and make the site
	$(ASV) run --skip-existing --bench '$(BENCH)' '$(RANGE)'
	$(MAKE) asv-site

asv-site: $(DEV_STAMP)  ## write the site of all results to asv_bench/html; it opens from disk, without a network
	$(ASV) publish --no-pull
	$(BIN)/python asv_bench/site/make_offline.py asv_bench/html

asv-machine: $(DEV_STAMP)
	@$(ASV) machine --yes > /dev/null
	@test -z "$$(git status --porcelain --untracked-files=no)" || echo "note: the tree has changes; asv measures commits"

# HEAD= is the working tree.
HEAD ?=
BUDGET ?= 2m
WHAT ?= times

compare: $(RUN_STAMP)  ## compare the WHAT=times,kernels,counts of BASE and HEAD; writes build/compared.md; fails if HEAD is worse
	@mkdir -p build
	@$(BIN)/gathernest bench compare $(BASE) $(HEAD) --what $(WHAT) --budget $(BUDGET) --json build/compared.json --markdown \
	  > build/compared.md; status=$$?; cat build/compared.md; test $$status = 0 || test $$status-$(WHAT) = 3-times

clean:  ## remove .venv and everything built
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	touch $@

# Modules are compiled when they are first imported, and not all of them by pip, which takes longer than the download.
$(TEST_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e ".[test]"
	touch $@ $(RUN_STAMP)

$(DEV_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e ".[dev]"
	touch $@ $(RUN_STAMP) $(TEST_STAMP)
