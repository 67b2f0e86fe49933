"""Declarations of the driver, and of the made-up library, against cuda.h itself."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Final

import pytest

from boards.cuda import header as board
from drivers.cuda import abi
from tests.cuda.header import header, path_of
from tests.support import check

_C_TYPES: Final = {
    "uint64_t": 8, "int": 4, "unsigned int": 4,
}  # fmt: skip
_BY_VALUE: Final = {
    "size_t": "uint64_t", "unsigned long long": "uint64_t", "CUdeviceptr": "uint64_t",
    "int": "int", "CUdevice": "int", "unsigned int": "unsigned int",
}  # fmt: skip
_ENUMS: Final = {"CUresult", "CUdevice_attribute", "CUfunction_attribute"}
CONSTANTS: Final[Mapping[str, int]] = {
    "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK": abi.MAX_THREADS_PER_BLOCK,
    "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X": abi.MAX_GRID_DIM_X,
    "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y": abi.MAX_GRID_DIM_Y,
    "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z": abi.MAX_GRID_DIM_Z,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK": abi.MAX_SHARED_MEMORY_PER_BLOCK,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": abi.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    "CU_DEVICE_ATTRIBUTE_WARP_SIZE": abi.WARP_SIZE,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": abi.MULTIPROCESSOR_COUNT,
    "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING": abi.UNIFIED_ADDRESSING,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": abi.COMPUTE_CAPABILITY_MAJOR,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": abi.COMPUTE_CAPABILITY_MINOR,
    "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": abi.FUNC_MAX_THREADS_PER_BLOCK,
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": abi.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    "CU_POINTER_ATTRIBUTE_MEMORY_TYPE": abi.POINTER_MEMORY_TYPE,
    "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL": abi.POINTER_DEVICE_ORDINAL,
    "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR": abi.POINTER_RANGE_START_ADDR,
    "CU_POINTER_ATTRIBUTE_RANGE_SIZE": abi.POINTER_RANGE_SIZE,
    "CU_MEMORYTYPE_DEVICE": abi.MEMORYTYPE_DEVICE,
    "CU_STREAM_NON_BLOCKING": abi.STREAM_NON_BLOCKING,
    "CU_EVENT_DEFAULT": abi.EVENT_DEFAULT,
    "CU_MEMHOSTREGISTER_DEVICEMAP": abi.HOST_DEVICEMAP,
    "CU_MEMHOSTREGISTER_PORTABLE": abi.HOST_PORTABLE,
    "CU_EVENT_DISABLE_TIMING": abi.EVENT_DISABLE_TIMING,
    "CU_LAUNCH_PARAM_END_AS_INT": abi.PARAM_END,
    "CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT": abi.PARAM_BUFFER_POINTER,
    "CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT": abi.PARAM_BUFFER_SIZE,
    "CUDA_ERROR_OUT_OF_MEMORY": abi.OUT_OF_MEMORY,
    "CUDA_ERROR_NOT_READY": abi.NOT_READY,
    "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": abi.PEER_ALREADY,
    "CUDA_ERROR_DEVICE_UNAVAILABLE": abi.DEVICE_UNAVAILABLE,
    "CUDA_ERROR_ILLEGAL_ADDRESS": board.ILLEGAL_ADDRESS,
    "CUDA_ERROR_LAUNCH_TIMEOUT": board.LAUNCH_TIMEOUT,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": board.ILLEGAL_INSTRUCTION,
    "CUDA_ERROR_MISALIGNED_ADDRESS": board.MISALIGNED,
    "CUDA_ERROR_INVALID_CONTEXT": board.INVALID_CONTEXT,
    "CUDA_ERROR_INVALID_HANDLE": board.INVALID_HANDLE,
    "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED": board.REGISTERED,
    "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED": board.NOT_REGISTERED,
}  # fmt: skip


UNSAID: Final = {214, 710}
"""Uncorrectable ECC errors, as NVIDIA's Xid documents say (48, 94, 95); and asserts, of which the
header says "the context cannot be used anymore, and must be destroyed"."""


def width(parameter: str) -> str:
    """The integer type that stands for a parameter of the header."""
    kind = parameter.rpartition(" ")[0].removeprefix("const ")
    if "*" in parameter:
        return "uint64_t"
    if kind in _BY_VALUE:
        return _BY_VALUE[kind]
    if kind in _ENUMS:
        return "unsigned int"
    check(re.fullmatch(r"CU(context|stream|event|module|function|graph\w*)", kind, re.I), parameter)
    return "uint64_t"


@pytest.mark.parametrize("symbol", abi.FUNCTIONS)
def test_a_function_is_the_header_s(symbol: str) -> None:
    declared = header().prototypes[symbol]
    check(board.FUNCTIONS[symbol] == declared, f"{board.FUNCTIONS[symbol]!r}, not {declared!r}")
    wanted = [width(parameter) for parameter in declared.split(", ")]
    found = re.fullmatch(r"int\(\*\)\((.*)\)", abi.FUNCTIONS[symbol])
    check(found is not None and len(found[1].split(", ")) == len(wanted), abi.FUNCTIONS[symbol])
    sizes = [_C_TYPES[kind] for kind in (found[1].split(", ") if found else [])]
    check(sizes == [_C_TYPES[kind] for kind in wanted], f"{abi.FUNCTIONS[symbol]}, not {wanted}")


def test_both_tables_have_the_same_functions() -> None:
    check(set(board.FUNCTIONS) == set(abi.FUNCTIONS), "a function is in one of them alone")


def test_constants_are_the_header_s() -> None:
    numbers = header().numbers
    wrong = {name: value for name, value in CONSTANTS.items() if numbers[name] != value}
    check(not wrong, f"{wrong}")


def test_results_are_the_header_s() -> None:
    numbers = header().numbers
    wrong = [code for code, name in abi.RESULTS.items() if numbers[f"CUDA_ERROR_{name}"] != code]
    check(not wrong, f"{wrong}")
    check(set(abi.RESULTS) | {4} >= abi.FAULTS | abi.HANGS | abi.GONE, "each has a name")


def test_what_the_header_calls_inconsistent_is_a_fault() -> None:
    """Each result after which the header wants a new process, and no other one of work."""
    header()  # skips where there is none
    raw = header_with_comments()
    found = set()
    for text, name in re.findall(r"/\*\*(.*?)\*/\s*(CUDA_ERROR_\w+)", raw, re.S):
        if "must be terminated" in " ".join(text.replace("*", " ").split()):
            found.add(header().numbers[name])
    check(found, "the header says so of some")
    ends = abi.FAULTS | abi.HANGS | abi.GONE
    check(found <= ends, f"{found - ends} are missing")
    check(abi.FAULTS - found <= UNSAID, f"{abi.FAULTS - found} are no such results")


def header_with_comments() -> str:
    """The enum of results, whole."""
    path = path_of()
    text = path.read_text() if path else ""
    return text[text.index("typedef enum cudaError_enum") : text.index("} CUresult;")]


def test_the_struct_of_a_kernel_node() -> None:
    body = re.search(r"typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st \{(.*?)\}", header().text, re.S)
    fields = [" ".join(line.split()) for line in body[1].split(";")] if body else []
    kinds = [kind for kind in fields if kind]
    text = "".join("I" if kind.startswith("unsigned int") else "Q" for kind in kinds)
    check(struct.calcsize("@" + text) == abi.KERNEL_NODE.size, f"{kinds}")
    check(text == "QIIIIIIIQQQQ", text)
