"""Our structs and numbers beside those of the wheels: wgpu's webgpu.h, wgpudawn's cffi module, and
dawn-python's ctypes; and which of them a library is taken for."""

from __future__ import annotations

import ctypes
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivers.base.errors import NotFound, Unsupported
from drivers.base.library import Native
from drivers.webgpu import abi
from drivers.webgpu.api import flavour_of, signature
from drivers.webgpu.layout import Layouts
from drivers.webgpu.libraries import load, places
from drivers.world.linux import LinuxWorld
from tests.c_compiler import any_compiler
from tests.support import check
from tests.webgpu import LIBRARIES, need

OURS = {"CallbackInfo": "BufferMapCallbackInfo", "Limits": "Limits"}
"""Names in webgpu.h where ours is another."""
SKIPPED = {"DawnTogglesDescriptor"}
"""Of Dawn alone."""
NUMBERS = {
    "SUCCESS": "WGPUStatus_Success",
    "SHADER_SOURCE_WGSL": "WGPUSType_ShaderSourceWGSL",
    "ALLOW_PROCESS_EVENTS": "WGPUCallbackMode_AllowProcessEvents",
    "ALLOW_SPONTANEOUS": "WGPUCallbackMode_AllowSpontaneous",
    "FEATURE_LEVEL_CORE": "WGPUFeatureLevel_Core",
    "HIGH_PERFORMANCE": "WGPUPowerPreference_HighPerformance",
    "ERROR_OUT_OF_MEMORY": "WGPUErrorType_OutOfMemory",
    "LOST_DESTROYED": "WGPUDeviceLostReason_Destroyed",
    "QUERY_TIMESTAMP": "WGPUQueryType_Timestamp",
    "USAGE_MAP_READ": "WGPUBufferUsage_MapRead",
    "USAGE_COPY_SRC": "WGPUBufferUsage_CopySrc",
    "USAGE_COPY_DST": "WGPUBufferUsage_CopyDst",
    "USAGE_STORAGE": "WGPUBufferUsage_Storage",
    "USAGE_QUERY_RESOLVE": "WGPUBufferUsage_QueryResolve",
    "MAP_READ": "WGPUMapMode_Read",
    "STAGE_COMPUTE": "WGPUShaderStage_Compute",
}
FEATURES = {
    "timestamp-query": "WGPUFeatureName_TimestampQuery",
    "shader-f16": "WGPUFeatureName_ShaderF16",
    "subgroups": "WGPUFeatureName_Subgroups",
    "shader-f64": "WGPUNativeFeature_ShaderF64",
    "shader-int64": "WGPUNativeFeature_ShaderInt64",
}


def package(wheel: str) -> Path:
    """The folder of a wheel's package."""
    need({"wgpu": "wgpu", "pydawn": "dawn"}[wheel])
    spec = find_spec(wheel)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(wheel)
    return Path(spec.origin).parent


def test_structs_are_those_of_the_standard_header(tmp_path: Path) -> None:
    header = package("wgpu") / "resources" / "webgpu.h"
    layouts, wanted = Layouts(abi.STRUCTS), {}
    for name in sorted(abi.STRUCTS.keys() - SKIPPED):
        struct = f"WGPU{OURS.get(name, name)}"
        layout = layouts.of(name)
        wanted[f"sizeof({struct})"] = layout.nbytes
        for member, (offset, _) in layout.members.items():
            theirs = re.sub(r"(?<!chain\.)\bnext$", "nextInChain", member)
            theirs = "next" if name == "ChainedStruct" and member == "next" else theirs
            wanted[f"offsetof({struct}, {theirs})"] = offset
    found = any_compiler().values([str(header)], list(wanted), tmp_path)
    pairs = zip(wanted.items(), found, strict=True)
    different = {one: (value, ours) for (one, ours), value in pairs if value != ours}
    check(not different, f"{different}")


def test_numbers_are_those_of_the_headers() -> None:
    folder = package("wgpu") / "resources"
    text = (folder / "webgpu.h").read_text() + (folder / "wgpu.h").read_text()
    for name, theirs in NUMBERS.items():
        check(number(text, theirs) == getattr(abi, name), f"{name} {theirs}")
    for name, value in abi.WGPU_NATIVE.features.items():
        check(number(text, FEATURES[name]) == value, name)
    check(number(text, "WGPUBufferBindingType_Storage") == abi.STANDARD.binding_storage, "storage")
    read_only = number(text, "WGPUBufferBindingType_ReadOnlyStorage")
    check(read_only == abi.STANDARD.binding_read_only, "read only")


def test_what_is_native_is_in_its_header() -> None:
    text = (package("wgpu") / "resources" / "wgpu.h").read_text()
    kinds = {"void": "v", "float": "f", "WGPUBool": "i", "WGPULogLevel": "i"}
    for name, kind in abi.NATIVE_CALLS.items():
        found = re.search(rf"^ *(\w+) {name}\(([^)]*)\);", text, re.MULTILINE)
        check(found is not None, f"no {name}")
        if found:
            args = [arg for arg in found[2].split(",") if arg]
            theirs = ["p" if "*" in arg else kinds.get(arg.split()[0], "p") for arg in args]
            check(f"{kinds.get(found[1], 'p')}:{''.join(theirs)}" == kind, f"{name}: {found[0]}")
    check(number(text, "WGPULogLevel_Off") == abi.LOG_OFF, "log level")
    check(number(text, "WGPUShaderRuntimeChecks_BoundsChecks") == abi.BOUNDS_CHECKS, "checks")
    backends = [number(text, f"WGPUInstanceBackend_{one}") for one in ("Vulkan", "Metal", "DX12")]
    check(sum(backends) == abi.BACKENDS_PRIMARY, f"{backends}")
    options = re.search(r"struct WGPUInstanceEnumerateAdapterOptions\s*{([^}]*)}", text)
    check(options is not None and options[1].split()[-1] == "backends;", "what is enumerated")
    flags = {"WGPUInstanceBackend", "WGPUShaderRuntimeChecks"}
    wide = {one for one in flags if re.search(rf"typedef WGPUFlags {one};", text)}
    check(wide == flags, f"{wide} have 64 bits")


def number(text: str, name: str) -> int:
    """The value of an enum's member or a constant: a number, or a bit."""
    found = re.search(rf"\b{name} = (?:1 << (\d+)|(0x[0-9A-Fa-f]+|\d+))", text)
    check(found is not None, f"no {name}")
    if found is None:
        return -1
    return 1 << int(found[1]) if found[1] else int(found[2], 0)


def test_functions_are_those_of_the_header() -> None:
    text = (package("wgpu") / "resources" / "webgpu.h").read_text()
    for name, kind in abi.CALLS.items():
        found = re.search(rf"WGPU_EXPORT (.*?){name}\((.*?)\)", text)
        check(found is not None, f"no {name}")
        if found:
            count = len(found[2].split(",")) if found[2] else 0
            check(count == len(kind) - 2, f"{name}: {found[2]}")
            check((found[1].strip() == "void") == (kind[0] == "v"), f"{name}: {found[1]}")


def older() -> ModuleType:
    """ctypes structs of dawn-python; importing it loads its library."""
    package("pydawn")
    return import_module("pydawn.webgpu")


def test_structs_of_the_older_dawn_are_those_of_its_wheel() -> None:
    module, layouts = older(), Layouts(abi.OLDER_DAWN.structs)
    names = {
        "CallbackInfo": "BufferMapCallbackInfo2", "Limits": "RequiredLimits",
        "LimitsAlone": "Limits", "UncapturedErrorCallbackInfo": "UncapturedErrorCallbackInfo2",
        "PassTimestampWrites": "ComputePassTimestampWrites",
    }  # fmt: skip
    for name in sorted(abi.OLDER_DAWN.structs.keys() - {"ShaderSourceWGSL"}):
        struct = getattr(module, f"struct_WGPU{names.get(name, name)}")
        layout = layouts.of(name)
        check(layout.nbytes == ctypes.sizeof(struct), f"{name}: {layout.nbytes} bytes")
        fields = [field for field in struct._fields_ if not field[0].startswith("PADDING")]
        offsets = [getattr(struct, field[0]).offset for field in fields]
        own = sorted({offset for offset, _ in layout.members.values()})
        check(set(offsets) <= set(own), f"{name}: {own}, there {offsets}")


def test_numbers_of_the_older_dawn_are_those_of_its_wheel() -> None:
    module = older()
    for name, theirs in NUMBERS.items():
        check(getattr(module, theirs) == getattr(abi, name), f"{name} {theirs}")
    for name, value in abi.OLDER_DAWN.features.items():
        check(getattr(module, FEATURES[name]) == value, name)
    check(module.WGPUBufferBindingType_Storage == abi.OLDER_DAWN.binding_storage, "storage")
    check(module.WGPUSType_DawnTogglesDescriptor == abi.TOGGLES, "toggles")
    subgroups = module.WGPUSType_AdapterPropertiesSubgroups
    check(subgroups == abi.OLDER_DAWN.subgroups, "sizes of subgroups")


def dawn() -> Any:
    """The cffi module of wgpudawn: `ffi` with Dawn's own webgpu.h, `lib` with its numbers."""
    need("standard")
    return import_module("wgpudawn._lib")


def test_structs_of_the_standard_dawn_are_those_of_its_wheel() -> None:
    ffi, layouts = dawn().ffi, Layouts(abi.DAWN.structs)
    for name in abi.DAWN.structs:
        struct, layout = f"WGPU{OURS.get(name, name)}", layouts.of(name)
        check(layout.nbytes == ffi.sizeof(struct), f"{name}: {layout.nbytes} bytes")
        for member, (offset, _) in layout.members.items():
            chained = name == "ChainedStruct" or member.startswith("chain.")
            path = member.replace("next", "next" if chained else "nextInChain").split(".")
            theirs = ffi.offsetof(struct, *path)
            check(theirs == offset, f"{name}.{member}: {offset}, there {theirs}")


def test_numbers_of_the_standard_dawn_are_those_of_its_wheel() -> None:
    lib = dawn().lib
    for name, theirs in NUMBERS.items():
        check(getattr(lib, theirs) == getattr(abi, name), f"{name} {theirs}")
    for name, value in abi.DAWN.features.items():
        check(getattr(lib, FEATURES[name]) == value, name)
    check(lib.WGPUBufferBindingType_Storage == abi.DAWN.binding_storage, "storage")
    check(lib.WGPUBufferBindingType_ReadOnlyStorage == abi.DAWN.binding_read_only, "read only")
    check(lib.WGPUSType_DawnTogglesDescriptor == abi.TOGGLES, "toggles")
    check(lib.WGPUBackendType_Null == abi.BACKEND_NULL, "the null backend")
    check(not set(abi.CALLS) - set(dir(lib)), "it has every function")


@pytest.mark.parametrize(
    ("library", "flavour"),
    [("wgpu", abi.WGPU_NATIVE), ("dawn", abi.OLDER_DAWN), ("standard", abi.DAWN)],
)
def test_the_wheels_are_what_they_are_taken_for(library: str, flavour: abi.Flavour) -> None:
    need(library)
    world = LinuxWorld()
    path = next(one for one in places(world) if LIBRARIES[library].path in one)
    check(load(world, path).flavour is flavour, path)


class Symbols:
    """A library of these functions alone."""

    name = "libmade_up.so"

    def __init__(self, *names: str) -> None:
        self._names = names

    def function(self, symbol: str, _: str) -> Native:
        if symbol not in self._names:
            raise NotFound(symbol)
        return lambda *_: 0


def test_a_library_is_asked_and_what_is_unknown_is_refused() -> None:
    """Between Dawn's older ABI and the standard were others: structs and numbers of their own."""
    standard = ("wgpuInstanceRequestAdapter", "wgpuGetInstanceFeatures")
    check(flavour_of(Symbols(*standard)) is abi.STANDARD, "the standard, of nobody known")
    check(not abi.STANDARD.toggles, "it is given no toggles of Dawn's")
    check(flavour_of(Symbols(*standard, "wgpuDeviceTick")) is abi.DAWN, "Dawn")
    with pytest.raises(Unsupported, match=r"before webgpu\.h 1\.0"):
        flavour_of(Symbols("wgpuInstanceRequestAdapter", "wgpuInstanceWaitAny", "wgpuDeviceTick"))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_struct_by_value_is_on_the_stack_or_behind_an_address(machine: str) -> None:
    found = signature("p:ppC", machine).count("uint64_t")
    check(found == {"x86_64": 1 + 6 + 5, "aarch64": 1 + 3}[machine], f"{found}")
