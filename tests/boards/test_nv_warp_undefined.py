"""Registers that nobody wrote: reported where a result depends on them, and nowhere else.

The load of `x`, the only one of a word, is kept from running.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
HEAD = (
    'extern "C" __global__ void f(int *o, const signed char *a, unsigned *b) {'
    " int i = threadIdx.x, k = a[i]; unsigned x = b[i]; "
)
TAIL = " b[i] = k; }"
"""Keeps the address of `x` in registers of its own."""
WORD, NEVER = 16, 0xF << 12
LDG, WORDS = 0x181, 4
"""An opcode, and the size of an access in its bits 73 to 75."""
ARCHES = ("sm_75", "sm_86", "sm_90a", "sm_120")
DEPENDS = {
    "stored": "o[i] = x;",
    "a sum": "o[i] = x + k;",
    "bits beyond a mask": "o[i] = ((x << 8) + k) & (k | 0x100);",
    "a comparison": "o[i] = (x < k * 2u) | (k > 5);",
    "equality": "o[i] = x == 0x1234567 + k;",
    "a product": "o[i] = x * (k | 1);",
    "a choice": "o[i] = k > 0 ? x : k;",
    "a branch": "if (x & 1) o[i] = 3;",
    "an address": "o[(x & 1) + i] = 5;",
    "a float": "o[i] = __float_as_int(__int_as_float(x) * __int_as_float(k));",
}
"""Where k is 1, so that each depends on x."""
FREE = {
    "a mask": "o[i] = x & (k - 1);",
    "bits below": "o[i] = ((x << 8) + k) & (k | 0xFE);",
    "a comparison that another overrides": "o[i] = (x < k * 2u) | (k > 0);",
    "a comparison that another forbids": "o[i] = (x < k * 2u) & (k > 5);",
    "a product with nothing": "o[i] = x * (k - 1);",
    "a choice": "o[i] = k > 5 ? x : k;",
    "thrown away": "unsigned y = x * 7 + k; o[i] = k > 5 ? y : k;",
    "decided by the bits that are known": "o[i] = (x | 0x80000000u) > (unsigned)k;",
    "the smallest": "o[i] = min(x, (unsigned)(k - 1));",
}


def _reported(body: str, arch: str) -> set[str]:
    code, record, banks = compiled(HEAD + body + TAIL, arch)
    words = [int.from_bytes(code[at : at + WORD], "little") for at in range(0, len(code), WORD)]
    loads = [n for n, w in enumerate(words) if w & 0x1FF == LDG and w >> 73 & 7 == WORDS]
    check(len(loads) == 1, str(loads))
    words[loads[0]] |= NEVER
    changed = b"".join(word.to_bytes(WORD, "little") for word in words)
    args = (np.zeros(128, "i4"), np.ones(64, "i1"), np.zeros(64, "u4"))
    found = run((changed, record, banks), args, (1, 1, 1), (64, 1, 1))[1]
    return {kind for kind, _ in found}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", DEPENDS)
def test_what_depends_on_it_is_reported(name: str, arch: str) -> None:
    found = _reported(DEPENDS[name], arch)
    check(found == {"register that was never written"}, str(found))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", FREE)
def test_what_does_not_is_not(name: str, arch: str) -> None:
    check(not (found := _reported(FREE[name], arch)), str(found))
