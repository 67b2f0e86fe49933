"""The environment: every documented name, and every wrong value explained."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import pytest

from drivers.base.errors import BadChoice, NotFound
from drivers.choice import choose
from tests.support import check

ROOT = Path(__file__).parents[2]
READS = re.compile(r"""environ(?:\.get\(|\[)\s*["'](\w+)|\b(getenv|expanduser|expandvars)\(""")
SEARCH_PATHS = {
    "compilers/cpu/clang.py": ["PATH"],
    "drivers/machine/system.py": ["LD_LIBRARY_PATH", "PATH"],
}
"""Where programs and libraries are looked for as the system does it."""
KINDS = ["AMD", "NV", "QCOM", "METAL", "CUDA", "CL", "CPU", "WEBGPU"]


def test_nothing_set_leaves_everything_open() -> None:
    choice = choose({"HOME": "/home/u", "PATH": "/bin"})
    check((choice.kind, choice.index, choice.iface, choice.compiler) == (None, 0, None, None))
    check(choice.cpu_threads is None and choice.firmware_dir is None)
    check(choice.cache_dir == "/home/u/.cache/unbound")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_forced_by_its_name(kind: str) -> None:
    check(choose({kind: "1"}).kind == kind)
    check(choose({kind: "0"}).kind is None)
    check(choose({"DEV": f"{kind}:3"}).index == 3)
    check(choose({"DEV": kind.lower(), kind: "1"}).kind == kind)


def test_the_format_of_amds_queues() -> None:
    check([choose({"AMD_AQL": value}).aql for value in ("", "0", "1")] == [None, False, True])
    check(choose({}).aql is None)
    with pytest.raises(BadChoice, match="AMD_AQL='yes'"):
        choose({"AMD_AQL": "yes"})


def test_what_one_kind_reads_is_not_another_kinds() -> None:
    environ = {"AMD_AQL": "1", "AMD_HANG_S": "9", "ROCR_VISIBLE_DEVICES": "1"}
    for name, seen in (
        ("AMD:1", (True, 9.0, 1)),
        ("CPU", (None, None, 0)),
        ("NV", (None, None, 0)),
    ):
        choice = choose(environ, name)
        check((choice.aql, choice.hang_s, len(choice.visible)) == seen, f"{name}: {choice}")
    for name, value in (("AMD_AQL", "2"), ("AMD_HANG_S", "x")):
        with pytest.raises(BadChoice, match=name):
            choose({name: value}, "CPU")


def test_where_a_timeline_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = [choose({"UNBOUND_TRACE": value}).timeline for value in ("", "out.json", "/a/b.json")]
    check(seen == [None, str(tmp_path / "out.json"), "/a/b.json"], f"{seen}")
    for wrong in ("a\0b", "folder/"):
        with pytest.raises(BadChoice, match="UNBOUND_TRACE"):
            choose({"UNBOUND_TRACE": wrong})
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(BadChoice, match="full path"):
        choose({"UNBOUND_TRACE": "out.json"})


def test_how_long_a_kernel_may_take() -> None:
    seen = [choose({"AMD_HANG_S": value}).hang_s for value in ("", "90", "0.25", "0", "0.0")]
    check(seen == [None, 90.0, 0.25, inf, inf], str(seen))


def test_what_a_bare_gpu_may_reach() -> None:
    values = "", "iommu", "vram", "PHYSICAL"
    seen = [choose({"UNBOUND_DMA": value}).dma for value in values]
    check(seen == [choose({"AMD_DMA": value}).dma for value in values], "the old spelling")
    check(choose({"UNBOUND_DMA": "vram", "AMD_DMA": "vram"}).dma == "VRAM", "both say the same")
    traces = [choose({name: "/a"}).trace for name in ("UNBOUND_REGISTER_TRACE", "AMD_TRACE")]
    check(traces == ["/a", "/a"], f"{traces}")
    check(seen == [None, "IOMMU", "VRAM", "PHYSICAL"], str(seen))
    check(choose({}).firmware_manifest is None)
    named = {"UNBOUND_FIRMWARE_MANIFEST": "/m/amd.toml"}
    check(choose(named).firmware_manifest == "/m/amd.toml")


@pytest.mark.parametrize(
    ("flag", "kind", "compiler"),
    [
        ("GPU", "CL", None),
        ("CLANG", "CPU", "CLANG"),
        ("LLVM", "CPU", "LLVM"),
    ],
)
def test_older_spellings(flag: str, kind: str, compiler: str | None) -> None:
    choice = choose({flag: "1"})
    check((choice.kind, choice.compiler) == (kind, compiler))


@pytest.mark.parametrize(
    ("flag", "kind", "compiler"),
    [
        ("AMD_LLVM", "AMD", "LLVM"),
        ("AMD_HIP", "AMD", "HIP"),
        ("NV_PTX", "NV", "PTX"),
        ("CUDA_PTX", "CUDA", "PTX"),
        ("CPU_LLVM", "CPU", "LLVM"),
    ],
)
def test_compilers(flag: str, kind: str, compiler: str) -> None:
    check(choose({flag: "1"}, kind).compiler == compiler)
    check(choose({flag: "1"}).kind is None, "a compiler does not choose the device")
    other = "CPU" if kind != "CPU" else "AMD"
    check(choose({flag: "1"}, other).compiler is None)


@pytest.mark.parametrize(
    ("kind", "iface"),
    [("AMD", "KFD"), ("AMD", "PCI"), ("AMD", "USB"), ("NV", "NVK"), ("NV", "PCI"),
     ("QCOM", "KGSL"), ("QCOM", "MSM")],
)  # fmt: skip
def test_interfaces(kind: str, iface: str) -> None:
    check(choose({f"{kind}_IFACE": iface}, kind).iface == iface)
    check(choose({f"{kind}_IFACE": iface}, "CPU").iface is None)


def test_a_name_wins_over_the_environment() -> None:
    choice = choose({"AMD": "1", "CLANG": "0", "CPU_THREADS": "7"}, "CPU")
    check((choice.kind, choice.cpu_threads) == ("CPU", 7))
    check(choose({"DEV": "AMD:2"}, "NV:1").index == 1)


@pytest.mark.parametrize("name", ["", "GPUX", "AMD:", "AMD:x", "AMD:-1", "AMD:9999", "AMD:1:2"])
def test_an_unknown_name_lists_the_names(name: str) -> None:
    with pytest.raises(NotFound) as caught:
        choose({}, name)
    check(all(kind in str(caught.value) for kind in KINDS), str(caught.value))


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({"AMD": "yes"}, ["AMD=1", "AMD=0"]),
        ({"AMD": "1", "NV": "1"}, ["AMD=1", "NV=1", "CPU"]),
        ({"CLANG": "1", "LLVM": "1"}, ["CLANG=1", "LLVM=1"]),
        ({"GPU": "1", "CPU": "1"}, ["GPU=1", "CPU=1"]),
        ({"DEV": "AMD:1", "CPU": "1"}, ["DEV=AMD:1", "CPU=1"]),
        ({"DEV": "VOODOO"}, KINDS),
        ({"AMD_IFACE": "VFIO"}, ["KFD", "PCI", "USB"]),
        ({"AMD_DMA": "1"}, ["AMD_DMA", "iommu", "vram", "physical"]),
        ({"UNBOUND_DMA": "1"}, ["UNBOUND_DMA", "iommu", "vram", "physical"]),
        ({"UNBOUND_DMA": "vram", "AMD_DMA": "iommu"}, ["UNBOUND_DMA and AMD_DMA"]),
        (
            {"UNBOUND_REGISTER_TRACE": "/a", "AMD_TRACE": "/b"},
            ["UNBOUND_REGISTER_TRACE and AMD_TRACE"],
        ),
        ({"UNBOUND_FIRMWARE_MANIFEST": "amd.toml"}, ["'amd.toml' is not an absolute path"]),
        ({"NV_IFACE": "KFD"}, ["NVK", "PCI"]),
        ({"QCOM_IFACE": "x"}, ["KGSL", "MSM"]),
        ({"AMD_HIP": "1", "AMD_LLVM": "1"}, ["AMD_HIP=1", "AMD_LLVM=1"]),
        ({"CPU_THREADS": "0"}, ["1", "1024"]),
        ({"AMD_HANG_S": "-1"}, ["AMD_HANG_S='-1'", "seconds", "0 for no limit"]),
        ({"AMD_HANG_S": "inf"}, ["AMD_HANG_S"]),
        ({"AMD_HANG_S": "1.1.1"}, ["AMD_HANG_S"]),
        ({"AMD_HANG_S": "9" * 400}, ["AMD_HANG_S"]),
        ({"CPU_THREADS": "many"}, ["CPU_THREADS"]),
        ({"CPU_THREADS": "²"}, ["CPU_THREADS"]),
        ({"UNBOUND_CACHE": "relative"}, ["absolute"]),
        ({"UNBOUND_FIRMWARE": "~/f", "HOME": ""}, ["absolute"]),
        ({"UNBOUND_FIRMWARE_FILES": "/a/b.bin:c.bin"}, ["'c.bin' is not an absolute path"]),
    ],
)
def test_wrong_values_list_the_right_ones(environ: dict[str, str], shown: list[str]) -> None:
    with pytest.raises(BadChoice) as caught:
        choose(environ)
    for text in shown:
        check(text in str(caught.value), f"{text!r} is not in {caught.value}")


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"UNBOUND_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"UNBOUND_CACHE": "~/c", "HOME": "/h"}, "/h/c"),
        ({"UNBOUND_CACHE": "/c/d/../e/"}, "/c/d/../e"),
        ({"UNBOUND_CACHE": "/"}, "/"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/unbound"),
        ({"XDG_CACHE_HOME": "x", "HOME": "/h"}, "/h/.cache/unbound"),
    ],
)
def test_the_cache_directory(environ: dict[str, str], path: str) -> None:
    check(choose(environ).cache_dir == path, str(choose(environ).cache_dir))


def test_without_a_home_nothing_is_cached() -> None:
    check(choose({}).cache_dir is None)


def test_no_other_module_reads_the_environment() -> None:
    found: dict[str, list[str]] = {}
    for package in ("tensor", "compilers", "queues", "drivers", "boards"):
        for path in sorted((ROOT / package).rglob("*.py")):
            names = sorted("".join(groups) for groups in READS.findall(path.read_text()))
            if names:
                found[path.relative_to(ROOT).as_posix()] = names
    check("XDG_CACHE_HOME" in found.pop("drivers/choice.py", []), "it would be found")
    check(found == SEARCH_PATHS, str(found))


def test_an_interface_names_its_device_where_nothing_else_does():
    check(choose({"AMD_IFACE": "PCI"}).kind == "AMD")
    check(choose({"AMD_IFACE": "PCI", "CPU": "1"}).kind == "CPU", "a device that is named wins")
    check(choose({"AMD_IFACE": "PCI", "DEV": "NV:1"}).kind == "NV", "DEV, too")
    check(choose({"AMD_IFACE": "PCI", "NV_IFACE": "PCI", "AMD": "1"}).kind == "AMD")
    with pytest.raises(BadChoice, match="AMD_IFACE and NV_IFACE are set"):
        choose({"AMD_IFACE": "PCI", "NV_IFACE": "PCI"})
