# SPDX-License-Identifier: Apache-2.0
# The commands of the README; CMake does the building.
.PHONY: setup build check
setup:
	@tools/setup
build: setup
	@cmake --preset dev >/dev/null && cmake --build --preset dev
check: build
	@cd build/dev && ctest --output-on-failure
