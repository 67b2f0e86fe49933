"""The declarations of /dev/kfd against the kernel's headers, as the C compiler sees them.

The headers that C compilers of this machine come with are compiled; two releases are also kept as
tables, so that every machine checks an old and a new kernel.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivers.amd.kfd import abi as kfd_abi
from drivers.amd.kfd import event as kfd_event
from drivers.amd.kfd import memory as kfd_memory
from drivers.amd.kfd import process as kfd_process
from drivers.amd.kfd import queue as kfd_queue
from drivers.base.errors import Unsupported
from tests.abi.kfd_header import (
    HEADER,
    SYSFS,
    SYSFS_HEADER,
    evaluate,
    expectations,
    facts,
    ioctls,
    macros,
    minor_version,
)
from tests.c_compiler import CCompiler
from tests.references import linux_source
from tests.support import check

LINUX_HEADER = linux_source() / "include/uapi/linux/kfd_ioctl.h"
TABLES = json.loads((Path(__file__).parent / "kfd_headers.json").read_text())


def differences(expected: dict[str, int], values: dict[str, int]) -> list[str]:
    return [
        f"{name} is {values.get(name, 'missing')}, not {value}"
        for name, value in expected.items()
        if values.get(name) != value
    ]


def test_a_header_of_a_compiler(c_compiler: CCompiler, tmp_path: Path) -> None:
    minor = minor_version(c_compiler.include / HEADER)
    expected = expectations(minor)
    wrong = differences(expected, evaluate(c_compiler, HEADER, tmp_path, list(expected)))
    check(not wrong, f"KFD 1.{minor}: " + "; ".join(wrong))


def test_the_constants_of_the_topology(c_compiler: CCompiler, tmp_path: Path) -> None:
    wrong = differences(SYSFS, evaluate(c_compiler, SYSFS_HEADER, tmp_path, list(SYSFS)))
    check(not wrong, "; ".join(wrong))


def test_every_ioctl_of_a_header_is_declared(c_compiler: CCompiler, tmp_path: Path) -> None:
    header = c_compiler.include / HEADER
    minor, found = minor_version(header), macros(c_compiler, header, tmp_path)
    check(len(found) >= 35, f"only {len(found)} macros were found")
    missing = set(found) - set(kfd_abi.IOCTLS)
    if minor <= kfd_abi.KNOWN_MINOR:
        check(not missing, f"not declared: {missing}")
        check(set(found) == set(ioctls(minor)), "MINOR_SINCE")


@pytest.mark.parametrize("release", sorted(TABLES))
def test_the_table_of_a_release(release: str) -> None:
    table = TABLES[release]
    wrong = differences(expectations(table["minor"]), table["values"])
    check(not wrong, f"{release}: " + "; ".join(wrong))
    check(set(table["ioctls"]) == set(ioctls(table["minor"])), "ioctls")
    check(len(table["values"]) > 250, "a table with nothing in it proves nothing")


@pytest.mark.skipif(not LINUX_HEADER.exists(), reason="no kernel source: make references")
def test_a_table_is_what_its_program_prints() -> None:
    """Of the same header, byte for byte; of another 6.12, the same numbers."""
    found, table = facts(LINUX_HEADER), TABLES["Linux 6.12"]
    if found["minor"] == table["minor"]:
        same = dict(found, sha256=table["sha256"])
        check(same == table, "python -m tests.abi.kfd_header include/uapi/linux/kfd_ioctl.h")


def test_the_tables_are_of_an_old_and_a_new_interface() -> None:
    check(sorted(table["minor"] for table in TABLES.values()) == [11, 17])


# The numbers of hardware notes taken with gcc from Linux 6.12's header, written out once more.
NUMBERS = {
    "GET_VERSION": 0x80084B01, "CREATE_QUEUE": 0xC0604B02, "DESTROY_QUEUE": 0xC0084B03,
    "SET_MEMORY_POLICY": 0x40204B04, "GET_CLOCK_COUNTERS": 0xC0284B05,
    "UPDATE_QUEUE": 0x40184B07, "CREATE_EVENT": 0xC0204B08, "DESTROY_EVENT": 0x40084B09,
    "SET_EVENT": 0x40084B0A, "RESET_EVENT": 0x40084B0B, "WAIT_EVENTS": 0xC0184B0C,
    "SET_SCRATCH_BACKING_VA": 0xC0104B11, "GET_TILE_CONFIG": 0xC0284B12,
    "SET_TRAP_HANDLER": 0x40184B13, "GET_PROCESS_APERTURES_NEW": 0xC0104B14,
    "ACQUIRE_VM": 0x40084B15, "ALLOC_MEMORY_OF_GPU": 0xC0284B16,
    "FREE_MEMORY_OF_GPU": 0x40084B17, "MAP_MEMORY_TO_GPU": 0xC0184B18,
    "UNMAP_MEMORY_FROM_GPU": 0xC0184B19, "SET_CU_MASK": 0x40104B1A,
    "GET_QUEUE_WAVE_STATE": 0xC0184B1B, "GET_DMABUF_INFO": 0xC0204B1C,
    "IMPORT_DMABUF": 0xC0184B1D, "ALLOC_QUEUE_GWS": 0xC0104B1E, "SMI_EVENTS": 0xC0084B1F,
    "SVM": 0xC0184B20, "SET_XNACK_MODE": 0xC0044B21, "CRIU_OP": 0xC0384B22,
    "AVAILABLE_MEMORY": 0xC0104B23, "EXPORT_DMABUF": 0xC0104B24, "RUNTIME_ENABLE": 0xC0104B25,
    "DBG_TRAP": 0xC0204B26,
}  # fmt: skip


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_the_numbers(name: str, number: int) -> None:
    ioctl = kfd_abi.IOCTLS[f"AMDKFD_IOC_{name}"]
    check(ioctl.request == number, f"{name} is {ioctl.request:#x}")
    check(kfd_abi.BY_NUMBER[number & 0xFF] is ioctl)


def test_create_queue_as_older_kernels_know_it_is_the_start_of_ours() -> None:
    fields = {field.name: field.offset for field in kfd_queue.CreateQueueArgs.FIELDS}
    check(fields["sdma_engine_id"] == kfd_queue.CREATE_QUEUE_OLD_BYTES == 88)
    args = kfd_queue.CreateQueueArgs(ring_base_address=1 << 46, ctl_stack_size=0xA000)
    check(args.raw[88:] == bytes(8), "an older kernel would not miss anything")


def test_where_the_faults_facts_are() -> None:
    data = kfd_event.EventData()
    fault = kfd_event.MemoryExceptionData(
        not_present=1, va=0x7F12_3456_7000, gpu_id=0xABCD, error_type=3
    )
    data.data = bytes(fault.raw)
    data.event_id = 7
    check(len(data.raw) == 48 and data.raw[40] == 7)
    back = kfd_event.MemoryExceptionData.of(data.data)
    check((back.va, back.gpu_id, back.error_type) == (0x7F12_3456_7000, 0xABCD, 3))


def test_mmap_offsets() -> None:
    # src: kfd_priv.h: type in bits 63:62, the 16-bit GPU id from bit 46
    doorbell = kfd_memory.mmap_offset(kfd_memory.MmapType.DOORBELL, 0x5A5A)
    check(doorbell == 0xD696_8000_0000_0000, hex(doorbell))
    check(kfd_memory.mmap_offset(kfd_memory.MmapType.EVENTS, 0) == 2 << 62)
    check(kfd_memory.mmap_offset(kfd_memory.MmapType.MMIO, 1) == 1 << 46)
    for gpu_id in (-1, 1 << 16):
        with pytest.raises(ValueError, match="16 bits"):
            kfd_memory.mmap_offset(kfd_memory.MmapType.DOORBELL, gpu_id)


def test_the_event_page_is_eight_pages() -> None:
    check(kfd_event.EVENT_PAGE_BYTES == 0x8000)


@pytest.mark.parametrize("version", [(1, 11), (1, 17), (1, 18), (1, 30)])
def test_versions_that_are_spoken(version: tuple[int, int]) -> None:
    kfd_abi.check_version(*version)


@pytest.mark.parametrize("version", [(0, 17), (1, 0), (1, 10), (2, 0), (2, 17)])
def test_versions_that_are_not(version: tuple[int, int]) -> None:
    with pytest.raises(Unsupported, match=r"1\.11 and later 1\.x"):
        kfd_abi.check_version(*version)


def test_what_no_table_tells() -> None:
    # src: the list at the top of kfd_ioctl.h: 1.9, 1.12 and 1.13; kfd_chardev.c; KFD 1.18
    since = {"AVAILABLE_MEMORY": 9, "EXPORT_DMABUF": 12, "RUNTIME_ENABLE": 13, "DBG_TRAP": 13}
    check({f"AMDKFD_IOC_{name}": minor for name, minor in since.items()} == kfd_abi.MINOR_SINCE)
    check(kfd_queue.PM4_TARGET_XCC_SHIFT == 8)
    check(kfd_process.ProcessFlag.MFMA_HIGH_PRECISION == 1)


def test_what_a_version_has() -> None:
    check(kfd_abi.has("AMDKFD_IOC_CREATE_QUEUE", 11))
    check(not kfd_abi.has("AMDKFD_IOC_RUNTIME_ENABLE", 12))
    check(kfd_abi.has("AMDKFD_IOC_RUNTIME_ENABLE", 13))
    check(not kfd_abi.has("AMDKFD_IOC_NOTHING", 17))


def test_a_wrong_declaration_is_noticed() -> None:
    values = dict(TABLES["Linux 6.12"]["values"])
    check(not differences(expectations(17), values))
    values["offsetof(struct kfd_ioctl_create_queue_args, gpu_id)"] += 4
    del values["AMDKFD_IOC_SVM"]
    check(len(differences(expectations(17), values)) == 2)
