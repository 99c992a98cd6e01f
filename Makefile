# Everything a person or a machine runs here. `make setup` touches nothing outside this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# One process for tests that compute; five for those that wait for leases, nodes and programs. Where
# they stand, and which one shares a Java, says `tests/forks.py`.
SPREAD := --forks 1,5

.PHONY: setup compiled demo test test-all test-lab coverage doors lint docs faces rights dist bench table soak clean

setup: $(STAMP)

$(STAMP): pyproject.toml world/pyproject.toml lab/pyproject.toml doors/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,demo,connect]" -e ./world -e ./lab -e "./doors[dev]"
	touch $(STAMP)

demo: setup
	$(BIN)/snowmelt demo

# Tests start hundreds of programs; where PYTHONDONTWRITEBYTECODE is set, each would compile all anew.
compiled: setup
	$(BIN)/python -m compileall -q src world/src lab/src doors/src

# So that what pytest makes of the tests is kept for the next time as well.
test test-all coverage soak: export PYTHONDONTWRITEBYTECODE =

# What guards most, in minutes; a change to what is simulated should have all.
test: compiled
	$(BIN)/python -m pytest $(SPREAD) -m "not soak and not wide"

# More lives, more crashes, and more of each kind.
test-all: compiled
	$(BIN)/python -m pytest $(SPREAD) -m "not soak"

# The laboratory has its own tests; no queue needs it.
test-lab: compiled
	$(BIN)/python -m pytest -c lab/pyproject.toml --rootdir lab -n 2 --dist worksteal -m "not soak" lab

# Others' suites over the doors: each is fetched, and run against a real node.
doors: compiled
	for suite in celery dramatiq sqs taskiq; do $(BIN)/python doors/suites/$$suite.py || exit 1; done

coverage: compiled
	$(BIN)/python -m pytest -n 4 --dist loadfile -m "not soak" --cov --cov-report=term

lint: setup
	$(BIN)/python scripts/faces.py --check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/shape.py --check

# The pages as a site, in build/site; a link that leads nowhere fails. It loads nothing of other hosts.
docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python scripts/site_alone.py build/site

# The blocking faces of the client, from the async ones.
faces: setup
	$(BIN)/python scripts/faces.py

# The page that says which right each call takes.
rights: setup
	$(BIN)/python scripts/reference.py rights > docs/reference/rights.md
	$(BIN)/python scripts/reference.py roles > docs/reference/roles.md

# Wheels and sdists of all four distributions.
dist: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[release]"
	rm -rf dist
	for place in . world lab doors; do $(BIN)/python -m build --outdir dist $$place || exit 1; done
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/try_wheels.py

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	for one in fifo priority pool baton jobs failover; do $(BIN)/snowmelt bench $$one --quick || exit 1; done

# All calls and disturbances, anew, and docs/research/reliability.md of what came of them.
table: compiled
	mkdir -p build
	for group in threads loops processes nodes arguments; do PYTHONPATH=tests \
		$(BIN)/python -m table.program $$group --long --out build/table-$$group || exit 1; done
	PYTHONPATH=tests $(BIN)/python -m table.page build/table-*

soak: compiled
	$(BIN)/python -m pytest -m soak --timeout 7200
	$(BIN)/python -m pytest -c lab/pyproject.toml --rootdir lab --timeout 7200 lab

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
