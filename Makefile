# demo: environment, then training, status, parity and benchmark reports.  test: the same environment, then the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# Where there is a browser, the tests that drive it run; elsewhere they are skipped, and say so.
BROWSER := $(firstword $(foreach b,chromium chromium-browser google-chrome,$(shell command -v $(b) 2>/dev/null)))
EXTRAS := test,lint
ifneq ($(BROWSER),)
EXTRAS := test,lint,browser
endif

.PHONY: demo test lab lint status notebooks picture docs clean

demo: $(VENV)/.stamp
	$(BIN)/clnet report --quick

test: $(VENV)/.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

lab: $(VENV)/.stamp
	$(BIN)/clnet lab

lint: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy

status: $(VENV)/.stamp
	$(BIN)/clnet status

# Runs the notebooks and keeps them with their outputs; after a change of a notebook, or of what one shows.
notebooks: $(VENV)/.stamp
	$(BIN)/python -m clnet.workbench.notebooks

# The README's picture, taken in a browser.
picture: $(VENV)/.stamp
	$(BIN)/python -m pytest -n 0 -m slow tests/browser/test_picture.py
	cp build/browser/workbench.png docs/workbench.png

# The documentation as pages in site/, every warning an error: site/index.html opens without a server or network.
docs: $(VENV)/.stamp
ifdef UV
	uv pip install --quiet --python $(BIN)/python -e '.[docs]'
else
	$(BIN)/python -m pip install --quiet -e '.[docs]'
endif
	$(BIN)/python docs/site/build.py

# One stamp: the environment is made again only when pyproject.toml changed.
$(VENV)/.stamp: pyproject.toml
	@echo "Making $(VENV): about 1.5 GB (an OpenCL runtime, JupyterLab, the scientific stack), a minute or so."
ifdef UV
	@test -d $(VENV) || uv venv --quiet --python $(PYTHON) $(VENV)
	uv pip install --quiet --python $(BIN)/python -e '.[$(EXTRAS)]'
else
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[$(EXTRAS)]'
endif
	@touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
