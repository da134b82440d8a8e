# Two commands on a fresh machine: make demo, make test. Only Python >= 3.11, pip and make are assumed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
DEMO := demo-out
WORKERS ?= 2
# every version, as it was tested last; constraints/lowest.txt has the lowest that pyproject.toml declares
CONSTRAINTS ?= constraints/locked.txt
EXTRAS ?= test,lint
TESTS ?=
# what touches every library once, for the versions that CI does not give the whole suite
SMOKE := tests/cli/test_cli.py tests/mechanisms/test_contract.py tests/tables/test_read.py tests/tables/test_encode.py tests/releases/test_release_folder.py
PYTHONS ?= 3.11 3.12 3.13

HOUSE := $(if $(CHECK),--check) $(if $(LOWER),--lower) $(if $(LIST),--list)

.PHONY: demo test test-lowest test-pythons smoke lock plants lint types contract house examples audit bench before fuzz clean

$(VENV)/.core: pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c $(CONSTRAINTS) -e .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) install -q -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	touch $@

demo: $(VENV)/.core
	rm -rf $(DEMO)
	$(BIN)/python examples/demo.py $(DEMO)

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(TESTS)

# the lowest version of every library that pyproject.toml allows
test-lowest:
	$(MAKE) test VENV=.venv-lowest CONSTRAINTS=constraints/lowest.txt EXTRAS=test

# every Python that is at hand, on the path or with pyenv
test-pythons:
	for version in $(PYTHONS); do \
	  python=python$$version; \
	  $$python -c '' 2> /dev/null || python=$$(pyenv prefix "$$(pyenv latest $$version)" 2> /dev/null)/bin/python; \
	  if ! $$python -c '' 2> /dev/null; then echo "python$$version is not here: skipped"; continue; fi; \
	  $(MAKE) test PYTHON=$$python VENV=.venv-$$version EXTRAS=test || exit 1; done

# a part of the suite with the lowest versions, and with the newest Python
smoke:
	$(MAKE) test-lowest test-pythons TESTS="$(SMOKE)" PYTHONS="$(lastword $(PYTHONS))"

# needs uv; the newest of everything for all Pythons, and the lowest that is declared
UV := uv pip compile -q --no-header --no-annotate pyproject.toml
lock:
	$(UV) --universal --upgrade --python-version 3.11 --extra test --extra lint --extra pictures -o constraints/locked.txt
	$(UV) --resolution lowest-direct --python-version 3.11 --extra test -o constraints/lowest.txt

# breaks the code on purpose, a bug at a time, and tells how many tests catch each
plants: $(VENV)/.test
	$(BIN)/python -m pytest tests/planted tests/audit/test_audit_planted.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

contract: $(VENV)/.test
	$(BIN)/lint-imports

# what the house is like, before and now; CHECK=1 fails above a limit, LOWER=1 lowers limits, LIST=1 says where
house: $(VENV)/.test
	$(BIN)/python -m house $(HOUSE)

examples: $(VENV)/.test
	$(BIN)/python -m pytest --doctest-modules src/adumbra -p no:cacheprovider
	rm -rf $(DEMO)
	for example in examples/*.py; do $(BIN)/python $$example $(DEMO) > /dev/null || exit 1; rm -rf $(DEMO); done

# fewer runs than by default, so that all promises fit into a CI run; adumbra audit --all takes its time
audit: $(VENV)/.core
	$(BIN)/adumbra audit --all --runs 400

bench: $(VENV)/.test
	for benchmark in benchmarks/*.py; do $(BIN)/python $$benchmark --quick || exit 1; done

# CPU time of another commit beside this one, as make before REF=main; nothing may be slower than 1.05 times
before: $(VENV)/.test
	$(BIN)/python benchmarks/common/before_after.py $(REF)

# a few minutes; COUNT damaged files of every kind
COUNT ?= 3000
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --kind all --count $(COUNT) --seed $$(date +%s)

clean:
	rm -rf $(VENV) .venv-* $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
