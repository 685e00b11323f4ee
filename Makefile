# Everything a contributor types. Python >= 3.11, git and make are enough; uv makes the installation faster.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests leave a folder in extras/, too, that is no part of it.
EXTRAS := $(notdir $(patsubst %/__init__.py,%,$(wildcard extras/*/__init__.py)))
UV := $(shell command -v uv 2>/dev/null)
WORKERS ?= 2
# Tests start many processes: each would compile every library again.
unexport PYTHONDONTWRITEBYTECODE

ifdef UV
  MAKE_VENV = $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
  INSTALL = $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt
else
  MAKE_VENV = $(PYTHON) -m venv $(VENV)
  INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
endif

.PHONY: help demo check types lint format figures docs docs-site pictures test test-all cover crash soak without walls newest proof wheel image container clean

help:
	@echo "make demo      answer a real question about a real file, without a key or a network"
	@echo "make test      run the quick tests, in under three minutes"
	@echo "make test-all  run the slow rest: kill -9, hostile scripts, PostgreSQL, a real langgraph dev,"
	@echo "               and the property tests with all their examples"
	@echo "make check     formatting, lint, types, layers, the drawn graph, the generated docs, the bounds"
	@echo "make format    format the code"
	@echo "make figures   print the size of the house beside its bounds (scripts/bounds.toml)"
	@echo "make docs      write the tables that are generated from the code into docs/"
	@echo "make docs-site build the documentation as a site in build/site, and check its links"
	@echo "make pictures draw the pictures of the README anew, from real runs"
	@echo "make cover     run the quick tests and report what they do not reach"
	@echo "make crash     kill the agent at every point of a run, on SQLite and PostgreSQL (long)"
	@echo "make soak      drive threads by random steps, kills and faults for half an hour (long)"
	@echo "make without   take each part of extras/ away from a copy, and see that the rest works; X=evals: that one"
	@echo "make walls     the same, with every quick test (long)"
	@echo "make newest    run the core of the tests against the newest LangGraph"
	@echo "make proof     run tasks through this agent and others with MODEL=..., in a budget (docs/benchmarks.md)"
	@echo "make wheel     build the wheel into dist/, and try it in a clean environment"
	@echo "make image     install as the generated Dockerfile does, and load the graph"
	@echo "make container run the hostile scripts in a default Docker container"

# Three stages of one environment: the product, with what the quick tests need, with everything.
$(VENV)/.product: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	$(MAKE_VENV)
	$(INSTALL) --editable .
	@# Editors and type checkers do not see setuptools' import finder: a folder of links, which a .pth names.
	@rm -rf .typing && mkdir -p .typing/skills_agent
	@for part in graph nodes state skills $(addprefix extras/,$(EXTRAS)); do ln -s ../../$$part .typing/skills_agent/; done
	@$(BIN)/python -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "skills_agent.pth").write_text("$(CURDIR)/.typing\n")'
	@touch $@

$(VENV)/.test: $(VENV)/.product
	$(INSTALL) --editable '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	$(INSTALL) --editable '.[dev]'
	@touch $@

demo: $(VENV)/.product
	$(BIN)/skills-agent ask "Which region sold the most in skills/bundled/csv-report/assets/sample-orders.csv, and what is the total amount?" --yes run

check: lint types

types: $(VENV)/.dev
	$(BIN)/mypy $(addprefix -p skills_agent.,graph nodes skills state $(EXTRAS))
	$(BIN)/mypy conftest.py tests extras/*/tests benchmarks docs scripts examples/skills-repo/publish.py
	@for scripts in skills/bundled/*/scripts; do $(BIN)/mypy $$scripts/*.py || exit 1; done

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m pytest -q --no-header tests/graph/test_picture.py tests/test_circles.py
	$(BIN)/python scripts/figures.py --check

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

figures: $(VENV)/.dev
	$(BIN)/python scripts/figures.py

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

docs-site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: export PATH := $(CURDIR)/$(BIN):$(PATH)
pictures: $(VENV)/.dev
	python docs/pictures.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile quick -m "not slow"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "slow or property"

cover: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" --cov --cov-report=term

crash: $(VENV)/.dev
	$(BIN)/python -m tests.crash

soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak

without: $(VENV)/.test
	$(BIN)/python scripts/without.py $(X)

walls: $(VENV)/.test
	FULL=1 $(BIN)/python scripts/without.py $(X)

newest: $(VENV)/.dev
	sh .ci/newest

# With a key, or OPENAI_BASE_URL of a server: make proof MODEL=openai:gpt-5-mini BUDGET=5 PRICES="0.25 0.025 2"
proof: $(VENV)/.dev
	@test -n "$(MODEL)" || { echo "Name a model: make proof MODEL=openai:gpt-5-mini"; exit 1; }
	$(BIN)/python benchmarks/agents --model $(MODEL) $(if $(BUDGET),--budget $(BUDGET)) $(if $(PRICES),--prices $(PRICES)) $(OPTIONS)

wheel: $(VENV)/.dev
	PATH="$(CURDIR)/$(BIN):$$PATH" sh .ci/wheel

image: $(VENV)/.dev
	PATH="$(CURDIR)/$(BIN):$$PATH" sh .ci/image

container: $(VENV)/.test
	sh .ci/container

clean:
	rm -rf $(VENV) .typing build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
