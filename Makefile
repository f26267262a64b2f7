# make train   install into .venv and train on the embedded corpus: stories after a few minutes
# make test    run the examination and the project's own tests; ARGS="-m ''" adds the slow ones
# make check   formatting, lint, types, import directions, size of each room
# make rules   the from-scratch rule alone, which make check begins with
# make lab     try the laboratory in small (lab/README.md)
# make zoo     grade 165 odd or hostile submissions twice: does each get what it deserves?
# make system  install what is not Python (Debian): a C++ compiler for torch.compile, bubblewrap
#              for the grader, Chromium for the tests of its pages
# make llama_cpp
#              build llama.cpp for Python into .venv: needs a C++ compiler and some minutes
# make help    this list
# ARGS="..." passes options on, such as make train ARGS="--max-minutes 10"

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
# To start workers takes longer than one problem.
WORKERS := $(if $(findstring --problem,$(ARGS)),0,auto)

.PHONY: help train test check rules lab zoo system llama_cpp format clean

train: $(INSTALLED)
	$(BIN)/python scripts/train.py stories $(ARGS)

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -c pyproject.toml \
		--numprocesses $(WORKERS) --dist worksteal -m "not slow" $(ARGS)

check: rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/size.py

rules: $(INSTALLED)
	$(BIN)/python -m cs_grader.rules cs_basics

lab: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal lab $(ARGS)

zoo: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist tests/project/grader/attacks/whole.py $(ARGS)

system:
	apt-get update --quiet
	apt-get install --yes --no-install-recommends g++ bubblewrap
	apt-get install --yes --no-install-recommends chromium chromium-driver

llama_cpp: $(INSTALLED)
	CMAKE_ARGS=-DLLAVA_BUILD=OFF $(BIN)/python -m pip install --constraint constraints.txt llama-cpp-python

help:
	@sed -n 's/^# //p' $(firstword $(MAKEFILE_LIST))

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) scripts/setup.py
