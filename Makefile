# Every target sets itself up: a virtual environment in .venv, made again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto
ARGS ?=
FULL ?=
# A run starts hundreds of interpreters: without kept bytecode, each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/$(VENV)/bytecode
DEVICES ?= pocl intel wgpu dawn standard metal nv-ga102 nv-ga102-ptx qcom-a630

.DELETE_ON_ERROR:
.PHONY: help bench test test-all devices check format hardware vm sweep \
	witness-rocr witness-hip witness-rocrand witness-triton witness-tinygrad witness-turnip \
	opencl webgpu nv qcom extras torch references newest turnip generators probe doctor clean

help:
	@echo "make bench            what this machine does, beside numpy      (ARGS='--quick --json out.json')"
	@echo "make test             an eighth of the tests by cost, in minutes  (ARGS='-k matmul')"
	@echo "make test-all         every test, the costly ones in turns        (FULL=1: all their cases)"
	@echo "make devices          the tensor suite on OpenCL, WebGPU, a made-up Metal, two boards (DEVICES='pocl=0.1')"
	@echo "make check            ruff, mypy --strict, import-linter, texts and data files"
	@echo "make hardware         the tests that need a device, with the reason for each one skipped"
	@echo "make opencl           OpenCL for processors, PoCL's and Intel's, so that tests of CL=1 run"
	@echo "make webgpu           wgpu-native and two Dawns, so that tests of WEBGPU=1 run where Vulkan is"
	@echo "make nv               NVIDIA's compilers, so that kernels for its GPUs are compiled"
	@echo "make qcom             Mesa's disassembler of Adreno code, a second opinion in tests"
	@echo "make extras           the four above at once"
	@echo "make torch            torch, so that tests of memory shared with it run"
	@echo "make newest           a tenth of the unit tests on Debian's newest Python, fetched once"
	@echo "make references       kernel headers, firmware and a Vulkan driver for tests, from Debian"
	@echo "make turnip           Mesa's Vulkan driver for Adreno and its disassembler, built from Debian's source"
	@echo "make generators       data files compared with kernel headers (ARGS='LINUX', docs/adding-a-chip.md)"
	@echo "make vm               the driver in a Linux guest around a software GPU (docs/vm.md)"
	@echo "make witness-rocr     Debian's ROCr in front of the boards (docs/witnesses.md)"
	@echo "make witness-hip      AMD's HIP runtime and compiler in front of the boards (docs/witnesses.md)"
	@echo "make witness-triton   kernels by Triton's compilers on the boards (docs/witnesses.md)"
	@echo "make witness-rocrand  rocRAND's own tests of its kernels, 1.5 GB of the cache"
	@echo "make   kernels by Triton's compilers on the boards of AMD and NVIDIA (docs/witnesses.md)"
	@echo "make sweep            every bus access of a bare GPU goes wrong, in every way (40 minutes)"
	@echo "make witness-tinygrad stock tinygrad boots PCI boards (docs/witness-tinygrad.md)"
	@echo "make witness-turnip   Mesa's Vulkan driver for Adreno in front of the boards (docs/witnesses.md)"
	@echo "make probe doctor     which devices are usable, and what the machine lacks for the others"

# A Python without ensurepip gets an environment without pip, filled by the pip outside it.
$(BIN)/python:
	@test -w . || { echo "this checkout is read-only: copy it to a folder of yours" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --clear --without-pip $(VENV)

define pip
	@echo "Installing into $(VENV), once: $(2)"
	@if [ -x $(BIN)/pip ]; then $(BIN)/python -m pip install --quiet $(1); \
	else $(PYTHON) -m pip --python $(BIN)/python install --quiet $(1); fi
	@touch $@
endef
install = $(call pip,-e "$(1)",$(2))

$(VENV)/core.stamp: pyproject.toml | $(BIN)/python
	$(call install,.,what the product needs (about 300 MB))

# Exact versions with hashes on machines that tests/requirements.txt is for, else the ranges of users.
DEV_SIZE := what the tests need (about 1.2 GB with the product; half is compilers)
LOCK := tests/requirements.txt
LOCKED := $(shell [ "$$(uname -sm)" = "Linux x86_64" ] && $(PYTHON) -c \
	"import sys; print((3, 11) <= sys.version_info[:2] <= (3, 14))")
$(VENV)/dev.stamp: pyproject.toml $(LOCK) | $(BIN)/python
ifeq ($(LOCKED),True)
	$(call pip,--require-hashes --only-binary :all: -r $(LOCK),$(DEV_SIZE))
	$(call pip,--no-deps -e .,this project)
else
	$(call install,.[dev],$(DEV_SIZE))
endif
	@touch $(VENV)/core.stamp

bench: $(VENV)/core.stamp
	$(BIN)/python bench.py $(ARGS)

test: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -n $(WORKERS) --share=0.125 $(ARGS)

# Of the costly tests a third of the cases, other ones each day; FULL=1 runs all.
test-all: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -n $(WORKERS) --budgets --durations=10 $(if $(FULL),,--turns=0.3) $(ARGS)

# The tensor layer's own tests on other devices, several at once: NAME, or NAME=SHARE for a part of
# them. What a device refuses is in tests/refusals.
devices: opencl webgpu nv
	@$(BIN)/python -m tests.device_runs $(DEVICES) -- $(ARGS)

# Two vendors' OpenCL for processors, 330 MB of wheels: tests of CL=1 skip without them.
OPENCL := .[dev,cl,cl-pocl,cl-client]
$(VENV)/opencl.stamp: $(VENV)/dev.stamp
	$(call install,$(OPENCL),OpenCL for processors (330 MB))

opencl: $(VENV)/opencl.stamp

# Three WebGPU libraries, 28 MB of wheels. Debian's mesa-vulkan-drivers has a Vulkan driver for
# processors, and `make references` has the newer one that Dawn of 2026 needs.
WEBGPU := .[dev,webgpu,webgpu-dawn,webgpu-dawn-2025]
$(VENV)/webgpu.stamp: $(VENV)/dev.stamp
	$(call install,$(WEBGPU),three WebGPU libraries (28 MB))

webgpu: $(VENV)/webgpu.stamp

# nvrtc, nvJitLink and nvdisasm, 260 MB of wheels: they need no GPU. Tests of NVIDIA's kernels skip
# without them.
NV := .[dev,nv,nv-tools]
$(VENV)/nv.stamp: $(VENV)/dev.stamp
	$(call install,$(NV),NVIDIA's compilers (260 MB))

nv: $(VENV)/nv.stamp

# Mesa in a wheel of 42 MB, for its disassembler. Tests that ask it skip without.
QCOM := .[dev,qcom]
$(VENV)/qcom.stamp: $(VENV)/dev.stamp
	$(call install,$(QCOM),Mesa's disassembler (42 MB))

qcom: $(VENV)/qcom.stamp

# The four above by one run of pip.
EXTRAS := .[dev,cl,cl-pocl,cl-client,webgpu,webgpu-dawn,webgpu-dawn-2025,nv,nv-tools,qcom]
$(VENV)/extras.stamp: $(VENV)/dev.stamp
	$(call install,$(EXTRAS),OpenCL WebGPU NVIDIA's compilers and Mesa (660 MB))
	@touch $(addprefix $(VENV)/,opencl.stamp webgpu.stamp nv.stamp qcom.stamp)

extras: $(VENV)/extras.stamp

# One release, of which CI's index has the build for processors alone.
TORCH := torch==2.13.0
$(VENV)/torch.stamp: $(VENV)/dev.stamp
	$(call pip,$(TORCH),torch)

torch: $(VENV)/torch.stamp

# What needs no device and no time, also the tests that read texts, names and data files.
TEXTS := $(addprefix tests/unit/test_,architecture_page.py document_prose.py documents.py \
	environment_page.py extras.py families.py import_circles.py limits_of_tests.py locked.py \
	names_in_texts.py namespace.py no_side_effects.py no_unbounded_loops.py project.py scripts.py \
	vendor_code.py vendor_names.py) tests/abi/test_generators.py
check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -n $(WORKERS) $(TEXTS)
	$(BIN)/python -O -W ignore::pytest.PytestConfigWarning -m pytest tests/unit/test_project.py

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hardware: $(VENV)/dev.stamp
	$(BIN)/python -m pytest tests/hardware -rs $(ARGS)

references: $(VENV)/dev.stamp
	$(BIN)/python -m tests.references $(ARGS)

newest: $(VENV)/dev.stamp
	$(BIN)/python -m tests.newest_python $(ARGS)

generators: $(VENV)/dev.stamp
	$(BIN)/python -m generators $(ARGS)

vm: $(VENV)/dev.stamp
	$(BIN)/python -m tests.vm $(ARGS)

witness-rocr witness-hip witness-rocrand: $(VENV)/dev.stamp
	$(BIN)/python -m tests.witness $(@:witness-%=%) $(ARGS)

witness-triton: $(VENV)/nv.stamp
	$(BIN)/python -m tests.triton $(ARGS)

sweep: $(VENV)/dev.stamp
	$(BIN)/python -m tests.sweep $(ARGS)

witness-tinygrad: $(VENV)/dev.stamp
	$(BIN)/python -m tests.witness.tinygrad $(ARGS)
	$(BIN)/python -m tests.witness.tinygrad_nv
	$(BIN)/python -m tests.witness.tinygrad_usb

# What Mesa's build needs of Python; its Debian packages are named where they lack.
TURNIP := meson mako pyyaml packaging setuptools
$(VENV)/turnip.stamp: $(VENV)/webgpu.stamp
	$(call pip,$(TURNIP),what Mesa's build needs)

turnip: $(VENV)/turnip.stamp
	$(BIN)/python -m tests.turnip.build

witness-turnip: turnip
	$(BIN)/python -m tests.turnip $(ARGS)

probe doctor: $(VENV)/core.stamp
	$(BIN)/python -m drivers.$@ $(ARGS)

clean:
	rm -rf $(VENV) .vm build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
