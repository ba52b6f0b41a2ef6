# SPDX-License-Identifier: Apache-2.0
# The front door: `make` alone says what there is. The work is done by CMake and by scripts/.
.DEFAULT_GOAL := help
.PHONY: help demo build python test test-long bench bench-quick bench-strategies tune wheel docs peers format lint clean test-gpu test-jax bench-gpu tune-gpu

help:
	@echo "make demo         install what is missing, build, and run every example"
	@echo "make test         every test: C++, Python, sanitizers, fuzzing, installed package"
	@echo "make test-long    the same with ten times the random problems and longer fuzzing"
	@echo "make test-gpu     the tests of the CUDA backend, on a machine with a GPU (PYTHON names the interpreter)"
	@echo "make test-jax     the tests inside of JAX on its oldest supported, a middle and its newest version"
	@echo "make bench-gpu    the race on this machine's GPU, beside PyTorch, JAX and CuPy (ARGS=--grid: the whole grid)"
	@echo "make tune-gpu     what each strategy costs on this machine's GPU, and which choices of the planner cost too much"
	@echo "make build        the library and its examples, into build/release"
	@echo "make python       build the Python package and install it into .venv"
	@echo "make wheel        an sdist and a wheel for each Python found, into dist/, each tried in an empty environment"
	@echo "                  (SOW_CUDA=ON: the wheel of the CUDA backend)"
	@echo "make docs         the documentation site, into build/site (open build/site/index.html)"
	@echo "make peers        install the libraries that tests and benchmarks compare with (about 7 GB)"
	@echo "make bench        race every library that is installed, on the whole grid; make bench-quick takes two minutes"
	@echo "make bench-strategies   each way of working by itself; make tune fits the planner's numbers to this machine"
	@echo "make format       format every C++ file; make lint reads the tree: clang-format, clang-tidy, ruff, shellcheck"
	@echo "make clean        remove everything that was built (.venv stays)"

demo: build
	@scripts/demo

build:
	@scripts/setup build
	@test -f build/release/CMakeCache.txt || cmake --preset release -DSOW_BUILD_TESTS=OFF
	@cmake --build --preset release --target sow sow_static examples

python:
	@scripts/setup build python
	@scripts/stage
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  --force-reinstall --config-settings=cmake.define.SOW_PREFIX="$(CURDIR)/build/stage" .

test:
	@scripts/setup build test lint python
	@.venv/bin/python scripts/test

test-long:
	@scripts/setup build test browser lint python
	@.venv/bin/python scripts/test --long

test-gpu:
	@scripts/test_gpu

test-jax: python
	@scripts/test_jax

bench-gpu:
	@scripts/bench_gpu $(ARGS)

tune-gpu:
	@scripts/build_gpu
	@SOW_CUDA_LIBRARY=build/gpu/libsow_cuda.so build/gpu/bench_gpu/gpu_tune

bench bench-quick: python peers
	@cd bench && ../.venv/bin/python -m race --out ../build/bench $(if $(filter bench-quick,$@),--quick)
	@$(if $(filter bench-quick,$@),true,cd bench && ../.venv/bin/python -m race --only "grid*" --isa avx2 --out ../build/bench/avx2)
	@$(if $(filter bench-quick,$@),true,.venv/bin/python bench/frameworks.py)

# The programs of bench/*.cc, with Google Benchmark: one strategy at a time.
bench-strategies tune:
	@scripts/setup build bench
	@cmake --preset release -DSOW_BUILD_BENCH=ON
	@cmake --build --preset release --target bench_small bench_strategies bench_tune
	@build/release/bench/$(if $(filter tune,$@),tune,small)
	@$(if $(filter tune,$@),true,build/release/bench/strategies --benchmark_min_time=0.02)

wheel:
	@scripts/setup build python
	@scripts/wheel

docs: python
	@.venv/bin/python docs/site/build.py build/site

peers:
	@scripts/setup peers

format:
	@scripts/setup format
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format -i

lint:
	@scripts/setup build lint python
	@.venv/bin/python scripts/lint

clean:
	@rm -rf build dist
