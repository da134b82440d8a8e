# Two commands on a fresh machine: make demo, make test. Only Python >= 3.11, pip and make are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
DEMO := demo-out
WORKERS ?= 2

.PHONY: demo test plants lint types contract examples audit bench clean

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt -e .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) install -q -c constraints.txt -e '.[test,lint]'
	touch $@

demo: $(VENV)/.core
	rm -rf $(DEMO)
	$(BIN)/python examples/demo.py $(DEMO)

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# breaks the code on purpose, a bug at a time, and tells how many tests catch each
plants: $(VENV)/.test
	$(BIN)/python -m pytest tests/test_planted_bugs.py tests/test_audit_planted.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

contract: $(VENV)/.test
	$(BIN)/lint-imports

examples: $(VENV)/.test
	$(BIN)/python -m pytest --doctest-modules src/adumbra -p no:cacheprovider
	rm -rf $(DEMO)
	for example in examples/*.py; do $(BIN)/python $$example $(DEMO) > /dev/null || exit 1; rm -rf $(DEMO); done

# fewer runs than by default, so that all promises fit into a CI run; adumbra audit --all takes its time
audit: $(VENV)/.core
	$(BIN)/adumbra audit --all --runs 400

bench: $(VENV)/.test
	for benchmark in benchmarks/*.py; do $(BIN)/python $$benchmark --quick || exit 1; done

clean:
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
