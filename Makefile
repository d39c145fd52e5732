# Every target creates and fills .venv itself.
PYTHON ?= python3
BIN := .venv/bin
# Several processes with several threads each crawl: one thread per process.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test check fix figures results bench mutants soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.installed ## compare methods on the embedded corpus; ends with a table and a page
	$(BIN)/augless trial demo --jobs 2

test: check ## everything that must hold
	$(BIN)/pytest -n 2 --dist worksteal

check: .venv/.installed ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: .venv/.installed ## format, and fix what a machine can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

figures: .venv/.installed ## the pictures of the README and the docs, and docs/reference.md
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/reference.py

results: .venv/.installed ## docs/results.md and its figures, from the records below results/
	$(BIN)/python docs/results.py

bench: .venv/.bench ## speed, as ratios against peers measured in the same run
	for script in $(filter-out bench/mutants.py bench/defaults.py,$(wildcard bench/*.py)); do $(BIN)/python $$script || exit 1; done

mutants: .venv/.mutants ## faults in the core that no test notices: make mutants SAMPLE=400
	$(BIN)/python bench/mutants.py --sample $(or $(SAMPLE),400) --seed $(or $(SEED),0)

soak: .venv/.installed ## one row of the reliability table: make soak ROW=transport
	$(BIN)/python soak/soak.py $(ROW)

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv/.bench: .venv/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

.venv/.mutants: .venv/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[mutants]'
	touch $@

clean: ## forget the environment and all caches
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
