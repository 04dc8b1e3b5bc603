# Every target sets up .venv first, so each works on a fresh machine.
VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: demo test test-gpu check format browser bench bench-gpu bench-serve fuzz-serve experiments \
	reproduction-page clean

$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(READY)  ## draw scenes, learn from them, test the model and write a report
	$(VENV)/bin/supdocnade demo

browser:  ## the page is tested in one; where none can be installed, those tests are skipped
	-@command -v chromium > /dev/null || apt-get install --yes --quiet chromium \
		|| (apt-get update --quiet && apt-get install --yes --quiet chromium)

test: $(READY) browser  ## unit, parity and functional tests, doctests and the README's commands
	$(PYTHON) -m pytest --numprocesses 2 --dist loadfile

test-gpu: $(READY)  ## the tests that need a GPU, alone
	$(PYTHON) -m pytest tests/gpu

check: $(READY)  ## format, lint, types, import contracts; changes nothing
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(READY)  ## put the code into the house style
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: $(READY)  ## speed beside plain torch and VLFeat, as ratios; writes benchmarks/results/
	-apt-get install --yes --quiet libvlfeat1 || $(PYTHON) -m pip install --quiet opencv-python-headless
	$(PYTHON) -m benchmarks.bench_tree_nll
	$(PYTHON) -m benchmarks.bench_training
	$(PYTHON) -m benchmarks.bench_inference
	$(PYTHON) -m benchmarks.bench_encoding
	$(PYTHON) -m benchmarks.page

bench-gpu: $(READY)  ## the operation, training and encoding on a GPU, beside plain torch there
	$(PYTHON) -m benchmarks.bench_gpu
	$(PYTHON) -m benchmarks.bench_gpu_encoding
	$(PYTHON) -m benchmarks.page

bench-serve: $(READY)  ## the server under load for some eight minutes; writes benchmarks/results/
	-command -v ab > /dev/null || apt-get install --yes --quiet apache2-utils
	$(PYTHON) -m benchmarks.bench_serve
	$(PYTHON) -m benchmarks.page

fuzz-serve: $(READY)  ## thousands of damaged images, and requests made from the API's description
	$(PYTHON) -m benchmarks.fuzz_serve
	$(PYTHON) -m benchmarks.page

experiments: $(READY)  ## results on published corpora (two hours); writes experiments/results/
	$(PYTHON) -m experiments.class_slda
	$(PYTHON) -m experiments.newsgroups
	$(PYTHON) -m experiments.tmn
	$(PYTHON) -m experiments.visual_words
	$(PYTHON) -m experiments.labelme_product
	$(PYTHON) -m experiments.page

reproduction-page: $(READY)  ## docs/reproduction.md from experiments/*/results.json
	$(PYTHON) -m experiments.reproduction

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
