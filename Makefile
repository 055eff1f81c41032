# The commands of a day. Each sets up what it needs, then names a CMake preset; nothing is built
# here that CMake does not build. JOBS=4 make ... limits the compilers that run at once.
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
MINUTES ?= 5
ARGS ?=

.PHONY: help run test bench look format lint torture clean

help:
	@echo "make run      install what is missing, build, run sixteen agents over one document,"
	@echo "              leave report.html             (ARGS=\"--agents 4\" passes options on)"
	@echo "make test     install what is missing, build, run every test, fast and slow"
	@echo "make bench    build for release and run 'emblema bench': bookkeeping, then hashing"
	@echo "              (ARGS=\"manager --threads 2\" passes options on)"
	@echo "make look     build for release, write the page of 'emblema plan', leave pictures of it in"
	@echo "              build/look (ARGS=\"deepseek-v3 --gpu h200 --gpus 8\" chooses the plan)"
	@echo "make format   lay out every C++ file by .clang-format"
	@echo "make lint     clang-format, clang-tidy and tools/tidy over the whole tree"
	@echo "make torture  the long versions: torture tests, sanitizers over everything, libFuzzer"
	@echo "              for MINUTES=$(MINUTES) a target"
	@echo "make clean    remove build/ and report.html"

run:
	@tools/setup
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS)
	@build/release/apps/cli/emblema run $(ARGS)

test:
	@tools/setup
	@cmake --preset dev
	@cmake --build --preset dev --parallel $(JOBS)
	@ctest --preset dev --output-log build/dev/ctest.log
	@grep 'tests passed' build/dev/ctest.log

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
	@tools/lint

torture:
	@tools/setup --lint
	@tools/torture $(MINUTES)

clean:
	rm -rf build report.html
