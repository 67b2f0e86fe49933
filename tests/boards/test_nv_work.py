"""Work on NVIDIA's boards: rings, semaphores, copies, inline data, launches by descriptor."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from boards.nv.launch import KnownKernels, Launch
from boards.nv.machine import open_nv_board
from tests.boards.nv_client import (
    CLASSES,
    ENTRIES,
    NvClient,
    acquire,
    copy,
    method,
    opened,
    release,
)
from tests.support import check

CODE = bytes(range(128))


@pytest.mark.parametrize("chip", CLASSES)
def test_a_copy_between_the_hosts_writes_and_reads(chip) -> None:
    client = opened(chip)
    ring = client.work_ring()
    source, target = client.buffer(1 << 16), client.buffer(1 << 16, system=True)
    data = np.random.default_rng(1).integers(0, 256, 1 << 16, np.uint8)
    source.memory.write(0, data.tobytes())
    client.submit(ring, [*copy(target.va, source.va, 1 << 16), *release(ring.area.va + 4096, 7)])
    check(client.error(ring) == (0, 0, 0), client.world.gpus[0].channels[ring.token].reason)
    check(target.memory.read(0, 1 << 16) == data.tobytes())
    check(client.kinds() == [], str(client.world.violations))
    check(client.got(ring) == ring.put)


def test_a_semaphore_has_payload_and_time() -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096, system=True)
    before_ns = client.world.hardware.clock.now_ns()
    client.submit(ring, release(where.va + 32, 0x1234_5678_9ABC, timestamp=True))
    check(where.memory.read64(32) == 0x1234_5678_9ABC)
    check(where.memory.read64(40) >= before_ns)


def test_a_wait_holds_its_channel_until_another_channel_or_the_host_signals() -> None:
    client = opened()
    one, two = client.work_ring(), client.work_ring()
    where = client.buffer(4096, system=True)
    where.memory.write(0, bytes(4096))
    client.submit(one, [*acquire(where.va, 5), *release(where.va + 64, 1)])
    check(where.memory.read64(64) == 0 and client.got(one) != one.put)
    client.submit(two, release(where.va, 5))
    check(where.memory.read64(64) == 1 and client.got(one) == one.put)
    client.submit(one, [*acquire(where.va, 9), *release(where.va + 64, 2)])
    where.memory.write64(0, 9)
    client.world.sleep(0.001)
    check(where.memory.read64(64) == 2)


def test_the_ring_goes_round() -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096, system=True)
    for value in range(1, 2 * ENTRIES):
        client.submit(ring, release(where.va, value))
        check(where.memory.read64(0) == value)
    check(client.kinds() == [])


def test_two_entries_and_one_doorbell() -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096, system=True)
    where.memory.write(0, bytes(64))
    client.submit(ring, release(where.va, 1), bell=False)
    check(where.memory.read64(0) == 0)
    client.submit(ring, release(where.va + 8, 2))
    check((where.memory.read64(0), where.memory.read64(8)) == (1, 2))


@pytest.mark.parametrize(
    ("operation", "old", "value", "new"),
    [(0, 5, 3, 3), (1, 5, 3, 5), (2, 5, 3, 6), (3, 5, 3, 1), (4, 5, 3, 7), (5, 5, 3, 8),
     (6, 5, 3, 0), (6, 2, 3, 3), (7, 0, 3, 3), (7, 2, 3, 1)],
)  # fmt: skip
def test_reductions_of_the_host(operation, old, value, new) -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096, system=True)
    where.memory.write64(0, old)
    execute = 6 | operation << 27 | 1 << 31
    where_words = (where.va & 0xFFFF_FFFF, where.va >> 32, value, 0)
    client.submit(ring, method(0, 0x5C, *where_words, execute))
    check(where.memory.read32(0) == new)


def test_inline_data_lands_at_its_address() -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096)
    data = bytes(range(1, 11))
    words = struct.unpack("<3I", data + b"\0\0")
    client.submit(ring, [
        *method(1, 0x180, len(data), 1, where.va >> 32, where.va & 0xFFFF_FFFF),
        *method(1, 0x1B0, 1), 3 << 29 | 3 << 16 | 1 << 13 | 0x1B4 >> 2, *words,
    ])  # fmt: skip
    check(where.memory.read(0, 10) == data)
    check(client.kinds() == [])


def test_a_fill_by_remapping_writes_every_word() -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096)
    client.submit(ring, [
        *method(4, 0x408, where.va >> 32, where.va & 0xFFFF_FFFF), *method(4, 0x418, 256),
        *method(4, 0x700, 0xDEAD_BEEF), *method(4, 0x708, 4 | 3 << 16),
        *method(4, 0x300, 2 | 1 << 7 | 1 << 8 | 1 << 10),
    ])  # fmt: skip
    check(where.memory.read(0, 1024) == struct.pack("<I", 0xDEAD_BEEF) * 256)


def test_lines_of_a_copy_have_pitches() -> None:
    client = opened()
    ring, source, target = client.work_ring(), client.buffer(4096), client.buffer(4096)
    data = np.arange(4096, dtype=np.uint16).view(np.uint8)[:4096]
    source.memory.write(0, data.tobytes())
    client.submit(ring, [
        *method(4, 0x400, source.va >> 32, source.va & 0xFFFF_FFFF, target.va >> 32,
                target.va & 0xFFFF_FFFF, 128, 64, 32, 4),
        *method(4, 0x300, 2 | 1 << 7 | 1 << 8 | 1 << 9),
    ])  # fmt: skip
    for line in range(4):
        want = data[128 * line : 128 * line + 32].tobytes()
        check(target.memory.read(64 * line, 32) == want)


# Launches: bit ranges are written out from the headers, not read from the board's tables


def put(words: np.ndarray, low: int, high: int, value: int) -> None:
    """Set bits low..high of a descriptor."""
    number = int.from_bytes(words.tobytes(), "little")
    check(value < 1 << high - low + 1)
    mask = (1 << high - low + 1) - 1 << low
    number = number & ~mask | value << low
    words[:] = np.frombuffer(number.to_bytes(words.nbytes, "little"), np.uint32)


Bits = dict[str, tuple[int, int]]
V03: Bits = {
    "minor": (576, 579), "major": (580, 583), "grid_x": (384, 415), "grid_y": (416, 431),
    "grid_z": (448, 463), "block_x": (592, 607), "block_y": (608, 623), "block_z": (624, 639),
    "registers": (648, 656), "shared": (544, 561), "min": (562, 567), "max": (569, 574),
    "target": (657, 662), "sass": (1656, 1663), "code_low": (1536, 1567),
    "code_high": (1568, 1584), "valid0": (640, 640), "bank0_low": (1024, 1055),
    "bank0_high": (1056, 1072), "bank0_size": (1075, 1087), "release0": (823, 823),
    "release0_low": (768, 799), "release0_high": (800, 807), "release0_payload": (832, 863),
    "next_enable": (512, 512), "next_action": (513, 515), "next": (480, 511),
}  # fmt: skip
V02: Bits = V03 | {
    "sass": (1016, 1023), "release0": (138, 138), "release0_low": (736, 767),
    "release0_high": (768, 775), "release0_payload": (800, 831), "next_enable": (141, 141),
    "next_action": (142, 142),
}  # fmt: skip
V04: Bits = {
    "minor": (576, 579), "major": (580, 583), "type": (23, 25), "grid_x": (1024, 1055),
    "grid_y": (1056, 1071), "grid_z": (1088, 1103), "block_x": (1152, 1167),
    "block_y": (1168, 1183), "block_z": (1184, 1199), "registers": (1200, 1208),
    "shared": (584, 601), "min": (608, 613), "max": (614, 619), "target": (620, 625),
    "sass": (536, 543), "code_low": (1216, 1247), "code_high": (1248, 1272),
    "valid0": (416, 416), "bank0_low": (1536, 1567), "bank0_high": (1568, 1586),
    "bank0_size": (1587, 1599), "release0": (320, 320), "release0_low": (640, 671),
    "release0_high": (672, 696), "release0_payload": (704, 735), "next_enable": (368, 368),
    "next_action": (369, 371), "next": (448, 479),
}  # fmt: skip
V05: Bits = {
    "minor": (464, 467), "major": (468, 471), "type": (151, 153), "grid_x": (1248, 1279),
    "grid_y": (1280, 1295), "grid_z": (1312, 1327), "block_x": (1088, 1103),
    "block_y": (1104, 1119), "block_z": (1120, 1127), "registers": (1128, 1136),
    "shared": (1152, 1162), "min": (1163, 1168), "max": (1169, 1174), "target": (1175, 1180),
    "sass": (448, 455), "code_low": (1024, 1055), "code_high": (1056, 1076),
    "valid0": (1856, 1856), "bank0_low": (1344, 1375), "bank0_high": (1376, 1394),
    "bank0_size": (1395, 1407), "release0": (288, 288), "release0_low": (480, 511),
    "release0_high": (512, 536), "release0_payload": (544, 575), "next_enable": (336, 336),
    "next_action": (337, 339), "next": (384, 415),
}  # fmt: skip
VERSIONS = {
    # bits, words, (major, minor), code shift, bank shift, shared shift, SASS version
    "tu102": (V02, 64, (2, 3), 0, 0, 0, 0x75), "ga102": (V03, 64, (3, 0), 0, 0, 0, 0x86),
    "ad102": (V03, 64, (3, 0), 0, 0, 0, 0x89), "gh100": (V04, 96, (4, 0), 0, 6, 0, 0x90),
    "gb202": (V05, 96, (5, 0), 4, 6, 7, 0xA4),
}  # fmt: skip


def descriptor(chip: str, code_va: int, bank_va: int, **changes: int) -> np.ndarray:
    """A launch of 3 blocks of 64 threads with 0x200 bytes of bank 0."""
    bits, count, (major, minor), code_shift, bank_shift, shared_shift, sass = VERSIONS[chip]
    words = np.zeros(count, np.uint32)
    code, bank = code_va >> code_shift, bank_va >> bank_shift
    values = {
        "major": major, "minor": minor, "grid_x": 3, "grid_y": 1, "grid_z": 1, "block_x": 64,
        "block_y": 1, "block_z": 1, "registers": 32, "shared": 0x400 >> shared_shift,
        "min": 9, "target": 9, "max": 17 if chip == "tu102" else 26, "sass": sass,
        "code_low": code & 0xFFFF_FFFF, "code_high": code >> 32, "valid0": 1,
        "bank0_low": bank & 0xFFFF_FFFF, "bank0_high": bank >> 32, "bank0_size": 0x20,
    }  # fmt: skip
    if "type" in bits:
        values["type"] = 2
    for name, value in (values | changes).items():
        put(words, *bits[name], value)
    return words


class Launching(NvClient):
    """A client with code, a constant bank and room for descriptors."""

    def prepare(self) -> None:
        self.work = self.work_ring()
        self.code, self.bank = self.buffer(8192), self.buffer(4096)
        self.code.memory.write(0, CODE)
        self.bank.memory.write(0, bytes(range(256)) * 2)
        self.descriptors, self.out = self.buffer(4096), self.buffer(4096, system=True)
        self.out.memory.write(0, bytes(4096))
        self.launches: list[Launch] = []
        self.world.gpus[0].executor = KnownKernels({CODE: self.launches.append})

    def launch(self, words: np.ndarray, *, at: int = 0, send: bool = True) -> None:
        self.descriptors.memory.write(at, words.tobytes())
        if send:
            va = self.descriptors.va + at >> 8
            self.submit(self.work, [*method(1, 0x2B4, va), *method(1, 0x2C0, 9)])

    def simple(self, **changes: int) -> np.ndarray:
        return descriptor(self.chip, self.code.va, self.bank.va, **changes)


def launching(chip: str) -> Launching:
    client = Launching(open_nv_board(chip), chip)
    client.open_gpu()
    client.prepare()
    return client


@pytest.mark.parametrize("chip", CLASSES)
def test_a_launch_says_what_its_descriptor_says(chip) -> None:
    client = launching(chip)
    where = client.out.va
    words = client.simple(release0=1, release0_low=where & 0xFFFF_FFFF, release0_high=where >> 32,
                          release0_payload=77)  # fmt: skip
    client.launch(words)
    check(client.error(client.work) == (0, 0, 0), str(client.world.violations))
    check(client.kinds() == [], str(client.world.violations))
    (made,) = client.launches
    check((made.grid, made.block) == ((3, 1, 1), (64, 1, 1)))
    check((made.registers, made.shared_bytes, made.local_bytes) == (32, 0x400, 0))
    check(made.code_va == client.code.va)
    check(made.constant(0) == bytes(range(256)) * 2)
    check(client.out.memory.read64(0) == 77)


@pytest.mark.parametrize("chip", CLASSES)
def test_a_dependent_descriptor_follows(chip) -> None:
    client = launching(chip)
    second = client.descriptors.va + 0x400 >> 8
    client.launch(client.simple(grid_x=5), at=0x400, send=False)
    client.launch(client.simple(next_enable=1, next_action=1, next=second))
    check([made.grid[0] for made in client.launches] == [3, 5], str(client.world.violations))


def test_a_descriptor_in_the_push_buffer() -> None:
    client = launching("ga102")
    words = client.simple()
    at = client.descriptors.va >> 8
    client.submit(client.work, [
        *method(1, 0x318, at >> 32, at & 0xFFFF_FFFF),
        *method(1, 0x320, *(int(word) for word in words)),
        *method(1, 0x2B4, at), *method(1, 0x2BC, 3),
    ])  # fmt: skip
    check(len(client.launches) == 1, str(client.world.violations))


IMPOSSIBLE = {
    "major": 1, "minor": 9, "grid_x": 0, "block_x": 0, "block_y": 17, "block_z": 65,
    "registers": 0, "shared": 0x401, "target": 30, "code_low": 0x10,
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_descriptors_stop_the_channel(name) -> None:
    client = launching("ga102")
    client.launch(client.simple(**{name: IMPOSSIBLE[name]}))
    check(client.launches == [])
    check(client.error(client.work) == (13, 1, 0xFFFF))
    check("launch descriptor that cannot be" in client.kinds())


DOUBTFUL = {
    "sass": (0x80, "SASS version of another GPU"),
    "bank0_size": (0x1FFF, "constant bank of more than 64 KiB"),
    "bank0_low": (0x20, "constant bank that is not aligned"),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_doubtful_descriptors_are_reported_and_run(name) -> None:
    client = launching("ga102")
    value, kind = DOUBTFUL[name]
    if name == "bank0_low":
        value += client.bank.va & 0xFFFF_FFFF
    client.launch(client.simple(**{name: value}))
    check(len(client.launches) == 1)
    check(kind in client.kinds(), str(client.kinds()))


def test_a_bit_without_a_name_is_reported() -> None:
    client = launching("ga102")
    words = client.simple()
    put(words, 1968, 1968, 1)
    client.launch(words)
    check(client.kinds() == ["bits of a descriptor that have no name"])


def test_local_memory_that_was_not_given() -> None:
    client = launching("ga102")
    words = client.simple()
    put(words, 1600, 1623, 0x240)
    client.launch(words)
    check(client.error(client.work)[0] == 13)


def test_without_an_executor_code_is_an_illegal_instruction() -> None:
    client = launching("ga102")
    client.code.memory.write(0, b"\xff" * 128)
    client.launch(client.simple())
    check(client.error(client.work) == (13, 1, 0xFFFF))
    channel = client.world.gpus[0].channels[client.work.token]
    check(channel.group.sm_errors[0].pc == client.code.va)
