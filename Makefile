PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null)
# One more than a small machine has cores: a fourth of the time, a test waits for a process, a lease or a disk.
WORKERS ?= 3

# uv when it is there, pip otherwise: nothing but Python and make is needed.
ifdef UV
new_venv = $(UV) venv -q --allow-existing --no-python-downloads --python $(PYTHON) $(VENV)
install  = $(UV) pip install -q --python $(BIN)/python
else
new_venv = $(PYTHON) -m venv $(VENV)
install  = $(BIN)/python -m pip install -q --disable-pip-version-check
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check bench mutants soak lock clean

help: ## List the targets.
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/.demo ## Watch agents be killed, decided on and resumed; no key, no network.
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/sayso demo; else $(BIN)/sayso demo --headless; fi

# The domain is measured alone, and by examples: a line that only an engine test reaches is not tested as a rule, and one that
# only chance or a search reaches may be missed tomorrow.
test: $(VENV)/.test ## Run the tests, then hold the domain to full branch coverage.
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup
	$(BIN)/python -m coverage run -m pytest -q -m 'not soak and not search and not hypothesis' tests/domain
	$(BIN)/python -m coverage report --include='src/sayso/domain/*' --fail-under=100

check: $(VENV)/.test ## Check style, types, layers, lock files and file sizes.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo
	@if grep -nE '://|--(extra-)?index-url|--find-links' requirements*.lock || \
	  grep -n '"resolved"' tests/*/*/package-lock.json; then \
	  echo 'A lock file names an address: it would bind everybody to one index.' >&2; exit 1; fi
	@find src -name '*.py' -exec awk \
	  'FNR == 501 { print FILENAME ": over 500 lines; look for its second subject."; bad = 1 } END { exit bad }' {} + >&2

bench: $(VENV)/.test ## Measure the cycle against floors taken in the same run.
	$(BIN)/python -m bench

mutants: $(VENV)/.test ## Take our guards out one by one; a test must notice each.
	$(BIN)/python -m mutants

soak: $(VENV)/.test ## Run what is too long for every change.
	$(BIN)/python -m pytest -m soak -n 2 --dist loadgroup --timeout 0

$(BIN)/python:
	@$(new_venv) || { rm -f $(BIN)/python; \
	  echo 'No virtual environment: on Debian and Ubuntu, install the package python3-venv.' >&2; exit 1; }

$(VENV)/.core: requirements-core.lock pyproject.toml | $(BIN)/python
	$(install) --require-hashes -r requirements-core.lock
	$(install) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.demo: requirements-demo.lock $(VENV)/.core
	$(install) --require-hashes -r requirements-demo.lock
	@touch $@

$(VENV)/.test: requirements.lock $(VENV)/.core
	$(install) --require-hashes -r requirements.lock
	@touch $@

# Several files, because pip takes no hashes from a constraints file; no header, because it would name the command's paths.
LOCK_UV = $(or $(UV),$(VENV)/lock/bin/uv)
COMPILE = $(LOCK_UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
          --no-emit-index-url --no-config pyproject.toml --group build

lock: $(LOCK_UV) ## Write the lock files again; UPGRADE=--upgrade takes newer versions.
	$(COMPILE) $(UPGRADE) --extra all --group test --group check --group bench -o requirements.lock
	$(COMPILE) -c requirements.lock -o requirements-core.lock
	$(COMPILE) -c requirements.lock --extra server --extra oauth -o requirements-demo.lock
	$(COMPILE) -c requirements.lock --extra all -o requirements-deploy.lock

$(VENV)/lock/bin/uv:
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install -q --disable-pip-version-check uv

clean: ## Remove everything that make made, the virtual environment too.
	rm -rf $(VENV) build dist .coverage .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
