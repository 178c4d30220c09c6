# Everything runs in .venv; `make demo` and `make test` set it up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-cloudwatch test test-real real-parts dashboards-preview mutate lint type check-generated generate bench build clean

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

LISTEN ?= 127.0.0.1:9840

demo: $(STAMP) ## Run the exporter on a simulated fleet and serve the page (LISTEN=host:port; Ctrl-C ends it)
	@$(BIN)/llm-fleet-exporter demo --listen $(LISTEN)

demo-cloudwatch: $(STAMP) ## The same, publishing to a local stand-in for CloudWatch that prints what it takes
	@$(BIN)/llm-fleet-exporter demo --listen $(LISTEN) --cloudwatch

test: lint type check-generated ## Lint, types, generated files, all tests
	$(BIN)/python -m pytest

# ci: the parts that every CI run has; full: all.
TIER ?= full

real-parts: $(STAMP) ## Build or install the real programs that tests run against, outside the tree (TIER=ci: fewer)
	@$(BIN)/python -m tests.real.build --tier $(TIER)

test-real: $(STAMP) ## Tests against the real programs, those too heavy for `make test` included
	$(BIN)/python -m pytest -m "real or real_heavy" tests/real

PREVIEW ?=

dashboards-preview: $(STAMP) ## Draw the boards with Grafana's components over a real Prometheus (a quarter of an hour; PREVIEW="--board llm-pool ...")
	@$(BIN)/python -m dashboards.preview.draw $(PREVIEW)

# Not among the pinned packages: only this target needs it.
COSMIC_RAY := cosmic-ray==8.4.3
MODULES ?=

mutate: $(STAMP) ## Break the arithmetic on purpose and see that tests notice (MODULES="collector/health.py ..."; half an hour for all)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(COSMIC_RAY)
	@nice $(BIN)/python tests/mutation.py $(MODULES)

lint: $(STAMP) ## Ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(STAMP) ## mypy --strict on collector, exporter, alerts, dashboards
	$(BIN)/mypy

generate: $(STAMP) ## Write boards, rules and the pages of metrics from the table
	@$(BIN)/llm-fleet-exporter render dashboards --out dashboards/generated
	@$(BIN)/llm-fleet-exporter render alerts --out alerts/generated
	@$(BIN)/llm-fleet-exporter render cloudwatch-dashboards --out dashboards/generated/cloudwatch
	@$(BIN)/llm-fleet-exporter render cloudwatch-alarms --out alerts/generated/cloudwatch
	@$(BIN)/python docs/generate.py docs/metrics.md
	@$(BIN)/python docs/generate_cloudwatch.py docs/cloudwatch-metrics.md

check-generated: $(STAMP) ## Fail when generated files are not what the table says
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
		$(BIN)/llm-fleet-exporter render dashboards --out "$$fresh/dashboards" >"$$fresh/log" && \
		$(BIN)/llm-fleet-exporter render alerts --out "$$fresh/alerts" >>"$$fresh/log" && \
		$(BIN)/llm-fleet-exporter render cloudwatch-dashboards --out "$$fresh/dashboards/cloudwatch" >>"$$fresh/log" && \
		$(BIN)/llm-fleet-exporter render cloudwatch-alarms --out "$$fresh/alerts/cloudwatch" >>"$$fresh/log" && \
		$(BIN)/python docs/generate.py "$$fresh/metrics.md" && \
		$(BIN)/python docs/generate_cloudwatch.py "$$fresh/cloudwatch-metrics.md" && \
		diff -r "$$fresh/dashboards" dashboards/generated && diff -r "$$fresh/alerts" alerts/generated && \
		diff "$$fresh/metrics.md" docs/metrics.md && \
		diff "$$fresh/cloudwatch-metrics.md" docs/cloudwatch-metrics.md || \
		{ echo "generated files are not what the table says: make generate" >&2; exit 1; }

bench: $(STAMP) ## Measure speed, as ratios in one run
	@$(BIN)/python bench/run.py
	@$(BIN)/python bench/net.py
	@$(BIN)/python bench/picker.py
	@$(BIN)/python bench/cloudwatch.py
	@$(BIN)/python bench/otlp.py

build: $(STAMP) ## Build the wheel into dist/
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean: ## Remove everything that was made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
