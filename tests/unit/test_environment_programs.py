"""Every variable at absurd values: the default device opens and is right, or the error is ours."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from drivers.base.errors import BadChoice, DeviceError
from drivers.default import open_default
from drivers.settings import SETTINGS
from drivers.world.linux import LinuxWorld
from tests.contract.arrays import get, put, ramp
from tests.share import part
from tests.support import check

VALUES = [
    "", "0", "1", "-1", "2", "x", "1e400", "nan", "inf", "-0", "0x10", "\u0663", "9" * 5000, "/",
    "/dev/null", "/proc/self/mem", "relative/x", "/tmp/" + "a" * 300, "~", "~root/x", "a\nb",
    "\x1b[2J", "=", "CPU", "AMD:99999999999999999999", "CPU:0", "CL", "/dev/zero", "\udcff", ",,,,",
    "GPU-,0,-1", ":",
]  # fmt: skip
COUNT = 16
MOST_CHARS = 6000
"""Of a message: it may name a path of 5,000."""
NAMES = [setting.name for group in SETTINGS for setting in group.settings]
LIBRARIES = ("CL", "GPU", "WEBGPU", "CUDA", "METAL")
"""Kinds whose libraries would be loaded into this process: other tests open them."""


def outcome(name: str, value: str, home: str) -> str:
    environ = {"HOME": home, name: value}
    try:
        with open_default(world=LinuxWorld(), environ=environ, firmware=None) as device:
            found = get(device, put(device, ramp(COUNT)))
            check(np.array_equal(found, ramp(COUNT)), f"{name}={value!a}: {found}")
            return "right"
    except DeviceError as error:
        check(len(str(error)) < MOST_CHARS and error.hint, f"{name}={value!a:.80}: {error!a:.200}")
        return "BadChoice" if isinstance(error, BadChoice) else "no such device"


def test_only_errors_of_ours_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # UNBOUND_TRACE takes a relative path
    loads = {(name, "1") for name in LIBRARIES} | {("DEV", "CL")}
    cases = [case for case in itertools.product(NAMES, VALUES) if case not in loads]
    chosen = random.Random(4).sample(cases, part(len(cases), 200))
    found = Counter(outcome(name, value, str(tmp_path)) for name, value in chosen)
    check(len(NAMES) > 40 and min(found["right"], found["BadChoice"]) > 20, str(found))
