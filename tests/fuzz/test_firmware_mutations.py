"""Firmware: no changed bit passes, and no damaged header or manifest does harm."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable

from drivers.amd.firmware.assemble import assemble, parse
from drivers.base.errors import FirmwareRejected, MalformedInput
from drivers.firmware import Entry, Image, find, read_manifest
from tests import firmware_maker as maker
from tests.fake_machine import FakeMachine
from tests.mutation import CPU_LIMIT_S, EXTREMES, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.support import check

FLIPS = 10_000
SYSTEM = "/lib/firmware/amdgpu"


def flips(nbytes: int, rng: random.Random) -> list[int]:
    """Numbers of bits: all of them where there are fewer than FLIPS."""
    bits = nbytes * 8
    return list(range(bits)) if bits <= FLIPS else rng.sample(range(bits), FLIPS)


def test_every_flipped_bit_is_rejected() -> None:
    """One file of each block and version of the GPUs that are known, larger than its header."""
    files = {f"{arch}_{name}": file for arch in ("gfx1100", "gfx1201", "gfx942")
             for name, file in maker.gpu_files(arch).items()}  # fmt: skip
    manifest = read_manifest(maker.manifest_toml(files), "made-up.toml")
    world = FakeMachine({f"{SYSTEM}/{name}": data for name, (_, data) in files.items()})
    rng = random.Random(2)
    for name, (_, data) in files.items():
        path, entry, passed = f"{SYSTEM}/{name}", manifest.files[name], []
        check(find(world, manifest, entry).data == data, f"{name} itself")
        for bit in flips(len(data), rng):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            world.files[path] = bytes(changed)
            try:
                find(world, manifest, entry)
            except FirmwareRejected:
                continue
            passed.append(bit)
        world.files[path] = data
        check(not passed, f"{name}: bits {passed[:4]} may change")
    check(world.touched == [], "something was written")


def bounded(target: Callable[[bytes], object], seeds: list[bytes], mutations: int) -> int:
    """Feed `target` mutations of `seeds`: MalformedInput alone escapes. How many it accepted."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accepted, worst_s = 0, 0.0
    for number in range(mutations):
        rng = random.Random(number)
        blob = mutate(seeds[number % len(seeds)], rng)
        start_s = time.thread_time()
        try:
            target(blob)
        except MalformedInput as error:
            check(len(str(error)) < 1000, "an endless message")
        else:
            accepted += 1
        worst_s = max(worst_s, time.thread_time() - start_s)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    check(grown_kib < MEMORY_LIMIT_KIB, f"grew by {grown_kib} KiB")
    return accepted


def damage(data: bytes, rng: random.Random) -> bytes:
    """One or two words of the header become extreme ones or neighbours of what they were."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 2)):
        at = 4 * rng.randrange(min(64, len(data) // 4))
        old = int.from_bytes(data[at : at + 4], "little")
        new = rng.choice((*EXTREMES, old + 1, old + 4, old * 2, len(data), len(data) - old))
        changed[at : at + 4] = (new & 0xFFFF_FFFF).to_bytes(4, "little")
    return bytes(changed)


def test_mutated_headers_of_named_files() -> None:
    """As files that the user vouches for: found, taken as they are, parsed, put together."""
    gpus = {arch: maker.gpu_files(arch) for arch in ("gfx1100", "gfx1201", "gfx942")}
    known = [maker.gpu_files(arch) for arch in gpus]
    manifest = read_manifest(
        maker.manifest_toml({k: v for one in known for k, v in one.items()}), "m"
    )
    names = [(arch, name) for arch, files in gpus.items() for name in files]
    refused, worst_s = 0, 0.0
    for number in range(MUTATIONS):
        rng = random.Random(number)
        arch, name = names[number % len(names)]
        data = (damage if number % 3 else mutate)(gpus[arch][name][1], rng)
        world, entry = FakeMachine({"/x.bin": data}), manifest.files[name]
        start_s = time.thread_time()
        try:
            image = find(world, manifest, entry, named={name: "/x.bin"})
            firmware = parse(entry.block, image.data, image.path)
            spans = [len(part.data) for part in firmware.parts]
            check(all(0 < nbytes <= len(data) for nbytes in spans), f"{number}: {spans}")
        except (MalformedInput, FirmwareRejected):
            refused += 1
        worst_s = max(worst_s, time.thread_time() - start_s)
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    check(MUTATIONS // 5 < refused < MUTATIONS, f"{refused} refused: too mild, or too coarse")


def test_mutated_headers_of_every_version() -> None:
    files = list(maker.every_file().values())
    for number, (block, made) in enumerate(files):

        def target(data: bytes, block: str = block) -> object:
            return parse(block, data, "mutated")

        count = MUTATIONS // len(files)
        accepted = bounded(target, [made.data], count)
        check(0 < accepted < count, f"{number}, {block}: {accepted} of {count} accepted")


def test_a_set_with_one_mutated_file() -> None:
    """What is put together of it is whole, or refused by our errors."""
    for number in range(MUTATIONS // 10):
        rng = random.Random(number)
        arch = rng.choice(("gfx1100", "gfx1201", "gfx942"))
        made = {block: one.data for block, one in maker.gpu(arch).items()}
        block = rng.choice(sorted(made))
        made[block] = damage(made[block], rng)
        images = {
            key: Image(Entry(f"{key}.bin", key, ()), f"/{key}", data, None)
            for key, data in made.items()
        }
        try:
            found = assemble(images, rng.randrange(1 << 16))
        except (MalformedInput, FirmwareRejected):
            continue
        check(all(len(part.data) > 0 for part in found.parts), f"{number}: an empty part")


def test_mutated_manifests() -> None:
    files = {"imu_x.bin": ("IMU", b"abc"), "rlc_x.bin": ("RLC", b"d")}
    seed = maker.manifest_toml(files)
    accepted = bounded(lambda data: read_manifest(data, "mutated.toml"), [seed], MUTATIONS)
    check(0 < accepted < MUTATIONS // 2, f"{accepted} accepted")
