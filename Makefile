# Every target sets up .venv first, so each works on a fresh machine.
VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu check format docs notebooks browser bench bench-gpu \
	bench-growth bench-serve attack bits faults fuzz fuzz-serve sbom experiments reproduction-page clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(READY)  ## train a model on drawn scenes, test it and write a report
	$(VENV)/bin/supdocnade demo
	@echo 'Before you type them, run: . $(VENV)/bin/activate'

browser:  ## install Chromium for the tests of the web page, which are skipped without it
	-@command -v chromium > /dev/null || command -v google-chrome > /dev/null \
		|| apt-get install --yes --quiet chromium \
		|| (apt-get update --quiet && apt-get install --yes --quiet chromium)

test: $(READY) browser  ## run all tests, doctests and the commands of the README
	$(PYTHON) -m pytest --numprocesses 2 --dist loadfile --durations 20

test-gpu: $(READY)  ## run the tests that need a GPU
	$(PYTHON) -m pytest tests/gpu tests/unit/cuda

check: $(READY)  ## check format, lint, types and import contracts; changes nothing
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(READY)  ## format the code and apply the fixes of the linter
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

docs: $(READY)  ## build the documentation as a site that needs no network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

notebooks: $(READY)  ## run the notebooks in examples/ and store their output in them
	$(PYTHON) -m docs.notebooks

bench: $(READY)  ## compare speed with plain torch and VLFeat; writes benchmarks/results/
	-apt-get install --yes --quiet libvlfeat1 || $(PYTHON) -m pip install --quiet opencv-python-headless
	$(PYTHON) -m benchmarks.bench_tree_nll
	$(PYTHON) -m benchmarks.bench_training
	$(PYTHON) -m benchmarks.bench_inference
	$(PYTHON) -m benchmarks.bench_encoding
	$(PYTHON) -m benchmarks.bench_network
	$(PYTHON) -m benchmarks.bench_decoder
	$(PYTHON) -m benchmarks.bench_corpus
	$(PYTHON) -m benchmarks.page

bits: $(READY)  ## compare digests of models and outputs of commands with the committed ones, in a minute
	$(PYTHON) -m benchmarks.bits --check

bench-gpu: $(READY)  ## compare speed on a GPU with plain torch on it; writes benchmarks/results/
	$(PYTHON) -m benchmarks.bench_gpu
	$(PYTHON) -m benchmarks.page

bench-growth: $(READY)  ## measure time and memory up to a million photographs; writes benchmarks/results/
	$(PYTHON) -m benchmarks.bench_growth --million
	$(PYTHON) -m benchmarks.page

bench-serve: $(READY)  ## load the server for about eight minutes; writes benchmarks/results/
	-command -v ab > /dev/null || apt-get install --yes --quiet apache2-utils
	$(PYTHON) -m benchmarks.bench_serve
	$(PYTHON) -m benchmarks.page

attack: $(READY)  ## attack commands and a server by hand, in minutes; writes benchmarks/results/
	$(PYTHON) -m benchmarks.attack
	$(PYTHON) -m benchmarks.page

fuzz-serve: $(READY)  ## send damaged images and generated requests to the server
	$(PYTHON) -m benchmarks.fuzz_serve
	$(PYTHON) -m benchmarks.soak_serve
	$(PYTHON) -m benchmarks.page

fuzz: $(READY)  ## load thousands of mutated models, corpora, indexes and images; writes benchmarks/results/
	$(PYTHON) -m benchmarks.fuzz_files
	$(PYTHON) -m benchmarks.fuzz_images
	$(PYTHON) -m benchmarks.page

faults: $(READY)  ## kill commands, and fill or lock their disks, at random moments; writes benchmarks/results/
	$(PYTHON) -m benchmarks.faults
	$(PYTHON) -m benchmarks.page

sbom: $(READY)  ## write dist/sbom.json, the list of all packages (CycloneDX), and audit their versions
	python3 -m venv $(VENV)/sbom
	$(VENV)/sbom/bin/python -m pip install --quiet cyclonedx-bom pip-audit
	mkdir -p dist
	$(VENV)/sbom/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file dist/sbom.json $(PYTHON)
	-$(VENV)/sbom/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

experiments: $(READY)  ## measure on published corpora (two hours); writes experiments/results/
	$(PYTHON) -m experiments.class_slda
	$(PYTHON) -m experiments.baselines
	$(PYTHON) -m experiments.replicated_softmax
	$(PYTHON) -m experiments.newsgroups
	$(PYTHON) -m experiments.peers
	$(PYTHON) -m experiments.topic_coherence
	$(PYTHON) -m experiments.tmn
	$(PYTHON) -m experiments.visual_words
	$(PYTHON) -m experiments.labelme_product
	$(PYTHON) -m experiments.novelty
	$(PYTHON) -m experiments.batch_size
	$(PYTHON) -m experiments.page

reproduction-page: $(READY)  ## write docs/reproduction.md from experiments/*/results.json
	$(PYTHON) -m experiments.reproduction

clean:  ## remove the environment, builds and caches
	rm -rf $(VENV) .nox build dist .pytest_cache .mypy_cache .ruff_cache
