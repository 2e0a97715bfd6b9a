# make tune | test | check | setup. TORCH_INDEX chooses where torch comes from:
#   make tune TORCH_INDEX=https://download.pytorch.org/whl/cpu     (CPU build, 200 MB instead of gigabytes)
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
WORKERS ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile

.PHONY: setup tune test check clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (about 1.5 GB, one to two minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	@$(PIP) install -c constraints.txt -e '.[dev,plots,fleet]'
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(PIP) install triton==3.6.0
	@touch $@

tune: setup
	@$(BIN)/attnroof tune --model examples/models/Qwen3-0.6B --device cpu --budget-seconds 270 --resume --out results

test: setup
	@$(PYTEST)

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(PYTEST)

clean:
	rm -rf $(VENV) build *.egg-info results
