# Everything a contributor types. Nothing but Python >= 3.11, git and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo check format test crash wheel image clean

help:
	@echo "make demo    answer a real question about a real file, without a key or a network"
	@echo "make test    run all tests"
	@echo "make crash   kill the agent at every point of a run, on SQLite and PostgreSQL (long)"
	@echo "make check   formatting, lint, types, layers, and the drawn graph"
	@echo "make format  format the code"
	@echo "make wheel   build the wheel and try it in a clean environment"
	@echo "make image   install as the generated Dockerfile does, and load the graph"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@mkdir -p .typing/skills_agent
	@for part in graph nodes state skills; do ln -sfn ../../$$part .typing/skills_agent/$$part; done
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/skills-agent ask "Which region sold the most in skills/bundled/csv-report/assets/sample-orders.csv, and what is the total amount?" --yes run

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p skills_agent.graph -p skills_agent.nodes -p skills_agent.skills -p skills_agent.state
	$(BIN)/mypy tests benchmarks
	@for scripts in skills/bundled/*/scripts; do $(BIN)/mypy $$scripts/*.py || exit 1; done
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q --no-header tests/graph/test_picture.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadfile --cov --cov-report=term

crash: $(STAMP)
	$(BIN)/python -m tests.crash

wheel: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh .ci/wheel

image: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh .ci/image

clean:
	rm -rf $(VENV) .typing build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
