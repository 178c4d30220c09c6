# Everything runs in .venv; `make demo` and `make test` set it up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint type check-generated generate bench build clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 20

setup: $(STAMP) ## Make .venv with the pinned packages

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; '$(PYTHON)' is older. Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## Run the exporter on a simulated fleet and serve the page (Ctrl-C ends it)
	@$(BIN)/llm-fleet-exporter demo

test: lint type check-generated ## Lint, types, generated files, all tests
	$(BIN)/python -m pytest

lint: $(STAMP) ## Ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(STAMP) ## mypy --strict on collector, exporter, alerts, dashboards
	$(BIN)/mypy

generate: $(STAMP) ## Write boards, rules and docs/metrics.md from the table
	@$(BIN)/llm-fleet-exporter render dashboards --out dashboards/generated
	@$(BIN)/llm-fleet-exporter render alerts --out alerts/generated
	@$(BIN)/python docs/generate.py

check-generated: generate ## Fail when generated files are not what the table says
	@changed=$$(git status --porcelain -- dashboards/generated alerts/generated docs/metrics.md); \
		test -z "$$changed" || { echo "generated files differ from what is committed:" >&2; echo "$$changed" >&2; exit 1; }

bench: $(STAMP) ## Measure speed, as ratios in one run
	@$(BIN)/python bench/run.py
	@$(BIN)/python bench/net.py

build: $(STAMP) ## Build the wheel into dist/
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean: ## Remove everything that was made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
