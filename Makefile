# A thin front end: CMake does the build (CMakeLists.txt), and tools/setup.sh finds what it needs.
#
#   CC=clang make          another compiler        BUILD=folder   another build folder
#   WERROR=ON|OFF          warnings are errors (default: as the folder was configured, initially OFF;
#                          ON for `make test`)     FUZZ_SECONDS=n how long `make fuzz` runs
#   MUTANTS="--minutes 5"  options for tools/mutants.py
BUILD ?= build
FUZZ_SECONDS ?= 600
GPU_PYTHON ?= python3
RUN := . ./.setup && export BUILD=$(BUILD) &&
# SKBUILD: the extension stays in the build folder and is not copied into the Python package.
CLANG_BUILD := build-clang -DWAVE_WERROR=ON -DSKBUILD=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
export CLANG_BUILD
# CC is passed to tools/build.sh only if the user set it.
ifneq ($(origin CC),default)
export CC
endif
WERROR_NOW = $(or $(WERROR),$(if $(findstring WERROR=ON,$(shell cat $(BUILD)/.configured 2>/dev/null)),ON,OFF))

.PHONY: all setup demo test test-full test-gpu check san fuzz mutants bench bench-compile bench-gpu bench-library calibrate gpu-package fmt lint bless wc clean help bench-cpu

all: ## build the library, wavec, the Python package and the tests
	@tools/build.sh $(BUILD) -DWAVE_WERROR=$(WERROR_NOW)

setup: ## look for compilers, CMake and Python again, and install what is missing
	@tools/setup.sh --again

demo: ## run real kernels on this machine, compare them with NumPy and PyTorch, write a report
	@WANTED=wave_ext tools/build.sh $(BUILD) -DWAVE_WERROR=$(WERROR_NOW)
	@$(RUN) PYTHONPATH=python "$$PYTHON" tools/demo.py

test: ## every test; ends with one line `N passed, M failed`
	@tools/build.sh $(BUILD) -DWAVE_WERROR=$(or $(WERROR),ON) || { \
	  echo "The build failed. New warnings of your compiler? Try: make test WERROR=OFF"; exit 1; }
	@$(RUN) "$$PYTHON" tools/test.py

test-full: export TEST_FULL = 1
test-full: test ## `make test` with every row of the tables that it samples

# A machine with a GPU may have only CMake, a compiler and a Python with PyTorch (GPU_PYTHON).
gpu-package:
	@cmake -S . -B build-gpu -DWAVE_TOOLS=OFF -DWAVE_TESTS=OFF -DPython_EXECUTABLE="$$(command -v $(GPU_PYTHON))" >/dev/null
	@cmake --build build-gpu --parallel $$(nproc) >/dev/null

test-gpu: gpu-package ## every kernel of the list, and the launch tests, on the GPU of this machine
	@$(GPU_PYTHON) tools/test_gpu.py

check: all ## the fast tests, under a minute
	@$(RUN) "$$PYTHON" tools/test.py --fast

san: all ## C and Python tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/build.sh build-san -DWAVE_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug -DSKBUILD=ON
	@. ./.setup && BUILD=build-san "$$PYTHON" tools/test.py --sanitized

fuzz: all ## random programs for FUZZ_SECONDS (600)
	@$(RUN) "$$PYTHON" tools/fuzz.py --seconds $(FUZZ_SECONDS)

mutants: all ## every mutant of twelve lowered kernels on five machines: which ones the simulator misses
	@$(RUN) PYTHONPATH=python "$$PYTHON" tools/mutants.py --json $(BUILD)/mutants.json $(MUTANTS)

bench: all ## benchmarks of the compiler itself and, if there is a GPU, of kernels
	@$(RUN) "$$PYTHON" bench/bench_sym.py $(BUILD)/tests/bench_sym bench/corpus/expressions.txt \
	  bench/corpus/facts.txt --sympy 20
	@$(RUN) PYTHONPATH=python "$$PYTHON" bench/bench_trace.py
	@$(BUILD)/tests/bench_compile bench/kernels
	@$(BUILD)/tests/bench_sim
	@if command -v nvidia-smi >/dev/null; then $(MAKE) --no-print-directory bench-gpu; fi

bench-compile: all ## compile times of kernels, per pass, to PTX and through LLVM, compared with the goals
	@$(BUILD)/tests/bench_compile bench/kernels
	@$(RUN) PYTHONPATH=python "$$PYTHON" bench/bench_cpu.py --only compile

bench-gpu: gpu-package ## kernels on the GPU of this machine compared with PyTorch's; the cost of a launch
	@PYTHONPATH=python:bench $(GPU_PYTHON) bench/bench_gpu.py --target sm_80,sm_90a --triton --json build-gpu/gpu-bench.json
	@PYTHONPATH=python:bench $(GPU_PYTHON) bench/bench_launch.py

bench-library: gpu-package ## the kernel library on the GPU of this machine, beside PyTorch, with the bars to be reached
	@PYTHONPATH=python:bench $(GPU_PYTHON) bench/bench_library.py --json build-gpu/library-bench.json

calibrate: gpu-package ## the rows of units.def that would have predicted what this GPU does
	@PYTHONPATH=python:bench $(GPU_PYTHON) bench/bench_timeline.py --target sm_90a
	@PYTHONPATH=python:bench $(GPU_PYTHON) bench/calibrate.py --target sm_90a

bench-cpu: all ## kernels on the host CPU compared with NumPy, and with PyTorch if CPU_PYTHON has it
	@$(RUN) PYTHONPATH=python $(or $(CPU_PYTHON),"$$PYTHON") bench/bench_cpu.py --json $(BUILD)/cpu-bench.json

fmt: ## reformat C sources with clang-format (tables are aligned by hand and left alone)
	git ls-files '*.c' '*.h' | xargs clang-format -i

lint: ## layers of C and Python; a second compiler (clang -Werror); clang-tidy, sizes and phrases as advice
	@$(RUN) "$$PYTHON" tools/check_layers.py
	@$(RUN) "$$PYTHON" tools/check_names.py
	@$(RUN) "$$PYTHON" tools/check_imports.py
	@CC=clang tools/build.sh $(CLANG_BUILD)
	@if command -v clang-tidy >/dev/null; then \
	  git ls-files 'src/*.c' 'tools/*.c' | xargs -P $$(nproc) -n 4 clang-tidy -quiet -p build-clang; \
	fi || true
	@$(RUN) "$$PYTHON" tools/check_sizes.py --advise
	@$(RUN) "$$PYTHON" tools/check_phrases.py

bless: all ## rewrite golden files and generated documents; review the diff
	@$(RUN) "$$PYTHON" tools/wcheck.py --wavec $(BUILD)/wavec --bless tests/ir tests/diag tests/run
	@$(RUN) "$$PYTHON" tools/gen_errors.py > docs/errors.md
	@$(RUN) "$$PYTHON" tools/gen_features.py
	@$(RUN) "$$PYTHON" tools/gen_ir.py
	@$(RUN) "$$PYTHON" tools/gen_ops.py
	@$(RUN) "$$PYTHON" tools/gen_options.py
	@$(RUN) "$$PYTHON" tools/gen_pictures.py
	@$(RUN) BLESS=1 "$$PYTHON" -m pytest -q -p no:cacheprovider tests/python/test_docs.py \
	  tests/python/test_amd_golden.py

wc: ## lines per folder
	@python3 tools/check_sizes.py --table

clean: ## remove build outputs (.venv and .setup stay)
	rm -rf build build-san build-clang fuzz-out

help: ## this list
	@echo "make            build; then: make demo, make test"
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile
