"""Opening by name, by the environment, and the errors of what cannot be opened."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import drivers
from drivers import registry
from drivers.base.errors import BadChoice, NotFound, Unsupported
from drivers.choice import KINDS
from drivers.kinds import BEST_FIRST, BY_NAME, Kind, named, ways
from drivers.world.linux import LinuxWorld
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ["numpy", "llvmlite", "cffi", "pycparser", "drivers.cpu", "_cffi_backend"]


def test_every_kind_of_the_choice_has_its_line() -> None:
    check(set(BY_NAME) == set(KINDS) and len(BY_NAME) == len(BEST_FIRST))
    check(all(kind.title and kind.needs and kind.ways for kind in BEST_FIRST))


def test_what_records_name_is_there() -> None:
    for kind, way in ways():
        check(callable(named(way.check)), f"{kind.name} {way.name}: {way.check}")
        check(not way.offers or callable(named(way.offers)), f"{kind.name}: {way.offers}")
        check(not (way.offers and way.named_only), f"{kind.name} {way.name}: offered, or not?")
    for kind in BEST_FIRST:
        known = {way.name for way in kind.ways}
        check(bool(kind.opens) == bool(kind.written) and set(kind.written) <= known, kind.name)
        check(not kind.opens or callable(named(kind.opens)), f"{kind.name}: {kind.opens}")
    variables = [name for kind in BEST_FIRST for name in (kind.name, *kind.flags)]
    check(len(set(variables)) == len(variables), f"{variables}")


@pytest.mark.parametrize("name", ["CPU", "CPU:0", "cpu", None])
def test_the_cpu_is_opened_by_name_and_by_default(name: str | None) -> None:
    world = LinuxWorld()
    with drivers.open(name, world=world, environ={"CPU": "1", "CPU_THREADS": "1"}) as device:
        check(device.name == "CPU:0" and device.limits.threads == 1)
        buffer = device.alloc(100)
        check(buffer.nbytes >= 100)
        buffer.free()
    check((world.fds, world.maps, world.mapped_bytes) == (0, 0, 0), "close gives all back")


def test_the_environment_orders_the_compilers() -> None:
    with drivers.open(environ={"CLANG": "1", "CPU_THREADS": "1"}) as device:
        check(device.compilers == ("CLANG", "LLVM"))


def test_a_kind_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, known = BEST_FIRST[0].name, cast(dict[str, Kind], registry.BY_NAME)
    monkeypatch.setitem(known, kind, replace(BEST_FIRST[0], opens=""))
    for arguments in ({"name": kind, "environ": {}}, {"name": None, "environ": {kind: "1"}}):
        with pytest.raises(Unsupported, match="no driver is written yet") as caught:
            drivers.open(**arguments)
        check(BY_NAME[kind].needs in str(caught.value) and "CPU" in caught.value.hint)


def test_there_is_one_cpu_device() -> None:
    for call in (lambda: drivers.open("CPU:1"), lambda: drivers.open(environ={"DEV": "CPU:2"})):
        with pytest.raises(NotFound, match="there is no CPU:"):
            call()


def test_unknown_names_and_wrong_settings() -> None:
    with pytest.raises(NotFound, match="AMD, NV"):
        drivers.open("VOODOO", environ={})
    with pytest.raises(BadChoice):
        drivers.open(environ={"AMD": "1", "NV": "1"})


def test_importing_drivers_is_light() -> None:
    code = f"import sys, drivers; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = run_limited(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, cpu_s=60
    )
    check(done.stdout.strip() == "[]", done.stdout + done.stderr)
