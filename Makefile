# The commands of a day. Each sets up what it needs, then names a CMake preset; nothing is built
# here that CMake does not build. JOBS=4 make ... limits the compilers that run at once.
.DEFAULT_GOAL := help
PYTHON ?= python3
JOBS ?= $(shell nproc)
MINUTES ?= 5
ARGS ?=

.PHONY: help run test python bench look format lint torture clean

help:
	@echo "make run      install what is missing, build, run sixteen agents over one document,"
	@echo "              leave report.html             (ARGS=\"--agents 4\" passes options on)"
	@echo "make test     install what is missing, build, run every test, fast and slow, C++ and Python"
	@echo "make python   make build/venv and install the Python package in it"
	@echo "              (PYTHON=python3.12 chooses the Python, TORCH=none leaves torch out)"
	@echo "make bench    build for release and run 'emblema bench': bookkeeping, then hashing"
	@echo "              (ARGS=\"manager --threads 2\" passes options on)"
	@echo "make look     build for release, write the page of 'emblema plan', leave pictures of it in"
	@echo "              build/look (ARGS=\"deepseek-v3 --gpu h200 --gpus 8\" chooses the plan)"
	@echo "make format   lay out every C++ file by .clang-format"
	@echo "make lint     clang-format, clang-tidy, ruff, mypy and tools/tidy over the whole tree"
	@echo "make torture  the long versions: torture tests, sanitizers over everything, libFuzzer"
	@echo "              for MINUTES=$(MINUTES) a target"
	@echo "make clean    remove build/ and report.html"

run:
	@tools/setup
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS)
	@build/release/apps/cli/emblema run $(ARGS)

# The Python tests run against the extension of the same tree: the library is compiled once, with
# its walkers on.
test:
	@tools/setup
	@$(PYTHON) tools/python_setup
	@cmake --preset dev-python
	@cmake --build --preset dev --parallel $(JOBS)
	@ctest --preset dev --output-log build/dev/ctest.log
	@tools/python_tests
	@grep 'tests passed' build/dev/ctest.log

python:
	@tools/setup
	@$(PYTHON) tools/python_setup
	@echo "Compiling the package for release: minutes at first, seconds from then on."
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) build/venv/bin/python -m pip install --quiet \
	  --disable-pip-version-check --no-build-isolation --no-deps \
	  --config-settings=build-dir=build/python .
	@echo "Installed in build/venv. Next:"
	@echo "  . build/venv/bin/activate"
	@echo "  emblema plan deepseek-v3"
	@echo "  python -c 'import emblema; help(emblema)'"

# What each figure means: docs/internals/benchmarks.md.
bench:
	@tools/setup
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS)
	@build/release/apps/cli/emblema bench $(ARGS)

# Pages in headless Chromium: phone, desk, dark, paper.
look:
	@tools/look $(ARGS)

format:
	@tools/setup --lint
	@tools/lint --format

lint:
	@tools/setup --lint
	@$(PYTHON) tools/python_setup --lint
	@tools/lint

torture:
	@tools/setup --lint
	@tools/torture $(MINUTES)

clean:
	rm -rf build report.html
