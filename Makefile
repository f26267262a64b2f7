# make train   install into .venv and train on the embedded corpus: stories after a few minutes
# make test    run the examination and the project's own tests; ARGS="-m ''" adds the slow ones
# make check   formatting, lint, types, import directions
# make bench   measure (see scripts/maintain/bench.py)
# make chaos   kill a run thirty times and resume it: does it end like one that was left alone?
# make claims  measure what is said of norms (an hour or two; ARGS=--quick: minutes): docs/claims.md
# make faults  build every fault of the bank in turn: does the examination catch it?
# make places  plant faults in right code in turn: does the examination name the line?
# make contracts  draw twenty contracts: does the reference of each get full marks, and the usual one not?
# make seeds   let the reference sit the examination with inputs of fifty seeds: does it pass each?
# make fuzz    run the scripts on a thousand damaged files: one line each, and nothing left behind?
# make class   hide diagnoses from a class of two hundred: are the mistakes found again?
# make zoo     grade fifty bad submissions: does each get the verdict it deserves?
# make system  install what is not Python (Debian): a C++ compiler for torch.compile, bubblewrap
#              for the grader, Chromium for the tests of its pages
# ARGS="..." passes options on, such as make train ARGS="--max-minutes 10"

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: train test check bench claims chaos faults places contracts seeds fuzz class zoo system format clean

train: $(INSTALLED)
	$(BIN)/python scripts/train.py stories $(ARGS)

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -c pyproject.toml \
		--numprocesses auto --dist worksteal -m "not slow" $(ARGS)

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m cs_grader.policy cs_basics --except cs_basics/fast/native \
		--except cs_basics/study/claims --except cs_basics/study/microscope

bench: $(INSTALLED)
	$(BIN)/python scripts/maintain/bench.py pipeline $(ARGS)
	$(BIN)/python scripts/maintain/bench.py norms --plot docs/pictures/norms.png --document docs/norms.md $(ARGS)
	$(BIN)/python scripts/maintain/bench.py tokenizer --plot docs/pictures/tokenizer.png $(ARGS)
	$(BIN)/python scripts/maintain/bench.py generation $(ARGS)
	$(BIN)/python scripts/maintain/bench.py training --plot docs/pictures/training.png $(ARGS)

claims: $(INSTALLED)
	$(BIN)/python scripts/maintain/claims.py $(ARGS)

chaos: $(INSTALLED)
	$(BIN)/python scripts/maintain/chaos.py $(ARGS)

faults: $(INSTALLED)
	$(BIN)/python scripts/maintain/faults.py $(ARGS)

places: $(INSTALLED)
	$(BIN)/python scripts/maintain/places.py $(ARGS)

contracts: $(INSTALLED)
	$(BIN)/python scripts/maintain/contracts.py $(ARGS)

seeds: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python scripts/maintain/seeds.py $(ARGS)

fuzz: $(INSTALLED)
	cd tests/project && ../../$(BIN)/python -m fuzz --files 1000 $(ARGS)
	$(BIN)/python tests/project/grader/fuzz_wire.py --frames 100000

class: $(INSTALLED)
	$(BIN)/python scripts/maintain/clusters.py $(ARGS)

zoo: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist tests/project/grader/zoo/whole.py $(ARGS)

system:
	apt-get update --quiet
	apt-get install --yes --no-install-recommends g++ bubblewrap
	apt-get install --yes --no-install-recommends chromium chromium-driver

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) scripts/setup.py
	touch $@
