# The front door: `make` alone says what there is.
.DEFAULT_GOAL := help
.PHONY: help build format clean

help:
	@echo "make build    build the library, its tests and examples into build/release"
	@echo "make format   format every C++ file"
	@echo "make clean    remove everything that was built"

build:
	@cmake --preset release
	@cmake --build --preset release

format:
	@git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format -i

clean:
	@rm -rf build dist
