# SPDX-License-Identifier: Apache-2.0
# The commands of the README. CMake does the building; this file only names what people do.
#
#   make run                      set up, build, run the flagship example (examples/minilm)
#   make check                    set up, build, run every suite, then the suites again under the sanitizers
#   make check T=unit             one suite; `make suites` lists them
#   make bench B=launch           one benchmark
#   make install PREFIX=/usr/local DESTDIR=
#   make format                   clang-format on every C file
#   make clean                    remove what was built (not .venv)
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
T ?=
B ?=

.PHONY: run check suites bench build install format clean setup help
.DEFAULT_GOAL := build

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@tools/setup

build: setup
	@tools/build dev

run: setup
	@tools/build release
	@if [ -x examples/minilm/run ]; then examples/minilm/run build/release; else echo "examples/minilm/run is missing"; exit 1; fi

check:
	@tools/setup check
	@tools/suite $(if $(T),$(T),everything)

suites:
	@tools/build dev && tools/suite --list

bench:
	@tools/setup bench
	@if [ -z "$(B)" ]; then echo "make bench B=NAME, where NAME is one of:" $$(ls -d bench/*/ 2>/dev/null | xargs -n1 basename); exit 2; fi
	@if [ ! -d "bench/$(B)" ]; then echo "there is no benchmark '$(B)'"; exit 2; fi
	@tools/build release
	@if [ -x "bench/$(B)/run" ]; then bench/$(B)/run build/release; else build/release/bench/$(B)/bench_$(B); fi

install: setup
	@tools/build release
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

format:
	@git ls-files -z '*.c' '*.h' '*.cc' '*.hpp' | xargs -0 clang-format-14 -i

clean:
	@rm -rf build
