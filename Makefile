# Convenience only: everything below is `snakemake`, `pytest` or `ruff` in .venv.
# ARGS goes to Snakemake (or pytest), before the overlay, so it can hold targets and options:
#   make quick ARGS="--config data_dir=../data"

PYTHON ?= python3
CORES ?= all
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
SNAKEMAKE := PATH="$(abspath $(BIN)):$$PATH" $(BIN)/snakemake --cores $(CORES)

.PHONY: demo quick reproduce recourse test lint format docs clean report help

help:
	@echo "make demo       embedded data, nine families; a few minutes, no downloads beyond packages"
	@echo "make quick      3 data sets x 3 families x 256 cases"
	@echo "make reproduce  the paper's 189 units"
	@echo "make recourse   the second benchmark: which counterfactuals survive which model change"
	@echo "make report     HTML report of a run: make report ARGS='--configfile config/demo.yaml'"
	@echo "make test       all tests        make lint  formatters and linters        make clean"
	@echo "make docs       reference of the library's public names: site/index.html"

# The lock is installed once; the stamp is made anew when a requirements file changes.
$(VENV)/.run: envs/requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r envs/requirements.txt
	touch $@

$(VENV)/.dev: $(VENV)/.run envs/requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r envs/requirements-dev.txt
	touch $@

demo: $(VENV)/.run
	$(SNAKEMAKE) $(ARGS) --configfile config/demo.yaml
	$(SNAKEMAKE) $(ARGS) --configfile config/demo.yaml --report results/demo/report.html --quiet all
	@$(BIN)/python tools/show_run.py results/demo

quick: $(VENV)/.run
	$(SNAKEMAKE) $(ARGS) --configfile config/quick.yaml

reproduce: $(VENV)/.run
	$(SNAKEMAKE) $(ARGS)

# Recourse data: bundled and OpenML, or ARGS="--config data_dir=../shared/data"
recourse: $(VENV)/.run
	$(SNAKEMAKE) recourse $(ARGS)

report: $(VENV)/.run
	$(SNAKEMAKE) --report report.html $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/codespell src scripts tools workflow config benchmarks docs README.md CHANGELOG.md
	$(BIN)/snakemake --lint

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

docs: $(VENV)/.dev
	$(BIN)/python tools/build_reference.py site

# Downloaded data (data/) and the committed reference tables stay.
clean:
	find results -mindepth 1 -maxdepth 1 ! -name reference -exec rm -rf {} + 2>/dev/null || true
	rm -rf site .snakemake .pytest_cache .ruff_cache .hypothesis
