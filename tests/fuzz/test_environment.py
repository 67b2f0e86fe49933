"""20,000 mutated environments: only BadChoice escapes, quickly and with a short message."""

from __future__ import annotations

import random
import time

from drivers.base.errors import BadChoice
from drivers.choice import choose
from tests.share import part
from tests.support import check

NAMES = [
    "AMD", "NV", "QCOM", "METAL", "CUDA", "CL", "CPU", "WEBGPU", "GPU", "CLANG", "LLVM",
    "AMD_IFACE", "NV_IFACE", "QCOM_IFACE", "AMD_LLVM", "AMD_HIP", "NV_PTX", "CUDA_PTX",
    "CPU_LLVM", "DEV", "CPU_THREADS", "UNBOUND_CACHE", "UNBOUND_FIRMWARE", "HOME",
    "XDG_CACHE_HOME", "UNBOUND_FIRMWARE_FILES", "UNBOUND_FIRMWARE_MANIFEST", "AMD_DMA",
    "UNBOUND_DMA", "UNBOUND_TRACE", "UNBOUND_REGISTER_TRACE", "AMD_TRACE",
]  # fmt: skip
VALUES = ["1", "0", "", "AMD:1", "CPU", "KFD", "PCI", "NVK", "4", "/tmp/x", "~/x", "99999999"]
MUTATIONS = part(20_000, 2_000)
LONGEST_S = 0.25


def mutate(rng: random.Random, value: str) -> str:
    kind = rng.randrange(6)
    if kind == 0:
        return value
    if kind == 1:
        at = rng.randint(0, len(value))
        return value[:at] + chr(rng.choice([0, 10, 27, 58, 0x130, 0x661, 0xDC80])) + value[at:]
    if kind == 2:
        return value * rng.choice([2, 1000, 100_000])
    if kind == 3:
        return "".join(chr(rng.randrange(1, 0x500)) for _ in range(rng.randrange(12)))
    if kind == 4:
        return value[: len(value) // 2]
    return value.swapcase()


def test_only_bad_choice_escapes() -> None:
    rng = random.Random(20)
    accepted = refused = 0
    slowest_s = 0.0
    for _ in range(MUTATIONS):
        names = rng.sample(NAMES, rng.randint(1, 4))
        environ = {name: mutate(rng, rng.choice(VALUES)) for name in names}
        start_s = time.perf_counter()
        try:
            choice = choose(environ)
        except BadChoice as error:
            refused += 1
            check(len(str(error)) < 600 and str(error).isprintable(), ascii(str(error)))
        else:
            accepted += 1
            check(0 <= choice.index < 256)
        slowest_s = max(slowest_s, time.perf_counter() - start_s)
    check(min(accepted, refused) > MUTATIONS // 40, f"{accepted} accepted, {refused} refused")
    check(slowest_s < LONGEST_S, f"the slowest took {slowest_s} s")
