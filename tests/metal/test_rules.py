"""Rules of objects, encoders and launches, each broken on purpose: the made-up Metal reports it.

A driver that passes on it breaks none of them; so a rule that it did not notice would be worth
nothing. The names are the runtime's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final, TypeAlias

import pytest

from drivers.base.errors import DeviceError
from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Owned
from tests.metal.broken_values import VALUES
from tests.metal.made_up import runtime
from tests.metal.messages import BYTES, Bench, bench, clean
from tests.support import check

Breaks: TypeAlias = Callable[[Bench], object]
RULES: Final = 47
"""As docs/metal.md says."""


def _released_then_used(b: Bench) -> None:
    event = Owned(b.api, b.send("newSharedEvent", b.device))
    handle = event.handle
    event.release()
    b.send("setSignaledValue:", handle, 1)


def _released_twice(b: Bench) -> None:
    handle = b.send("newSharedEvent", b.device)
    b.send("release", handle)
    b.send("release", handle)


def _released_below_its_pool(b: Bench) -> None:
    b.send("release", b.commands())


def _used_after_its_pool(b: Bench) -> None:
    with b.api.pool():
        commands = b.commands()
    b.send("commit", commands)


def _pools_crossed(b: Bench) -> None:
    outer = b.send("init", b.send("alloc", b.api.class_of("NSAutoreleasePool")))
    inner = b.send("init", b.send("alloc", b.api.class_of("NSAutoreleasePool")))
    b.send("drain", outer)
    b.send("drain", inner)
    b.send("drain", outer)


def _unknown_selector(b: Bench) -> None:
    b.send("commit", b.queue)


def _message_to_nil(b: Bench) -> None:
    b.send("commit", 0)


def _message_to_no_object(b: Bench) -> None:
    b.send("commit", b.queue + 8)


def _wrong_class(b: Bench) -> None:
    encoder = b.send("computeCommandEncoder", b.commands())
    b.send("setComputePipelineState:", encoder, b.a)
    b.send("endEncoding", encoder)


def _encode_after_end(b: Bench) -> None:
    encoder = b.compute(b.commands())
    b.send("endEncoding", encoder)
    b.dispatch(encoder)


def _end_twice(b: Bench) -> None:
    encoder = b.compute(b.commands())
    b.send("endEncoding", encoder)
    b.send("endEncoding", encoder)


def _no_end(b: Bench) -> None:
    with b.api.pool():
        b.send("computeCommandEncoder", b.commands())


def _two_encoders(b: Bench) -> None:
    commands = b.commands()
    encoder = b.compute(commands)
    try:
        b.send("blitCommandEncoder", commands)
    finally:
        b.send("endEncoding", encoder)


def _commit_open(b: Bench) -> None:
    commands = b.commands()
    encoder = b.compute(commands)
    b.send("commit", commands)
    b.send("endEncoding", encoder)


def _commit_twice(b: Bench) -> None:
    commands = b.commands()
    b.finish(commands)
    b.send("commit", commands)


def _encode_after_commit(b: Bench) -> None:
    commands = b.commands()
    b.finish(commands)
    b.send("computeCommandEncoder", commands)


def _event_in_an_encoder(b: Bench) -> None:
    commands = b.commands()
    event = Owned(b.api, b.send("newSharedEvent", b.device))
    encoder = b.compute(commands)
    b.send("encodeSignalEvent:value:", commands, event.handle, 1)
    b.send("endEncoding", encoder)
    event.release()


def _event_back(b: Bench) -> None:
    event = Owned(b.api, b.send("newSharedEvent", b.device))
    b.send("setSignaledValue:", event.handle, 5)
    b.send("setSignaledValue:", event.handle, 4)
    event.release()


def _dispatch(change: Callable[[Bench, int], object]) -> Breaks:
    """Something wrong with a dispatch, in an encoder that is ended."""

    def broken(b: Bench) -> None:
        encoder = b.send("computeCommandEncoder", b.commands())
        change(b, encoder)
        b.send("endEncoding", encoder)

    return broken


def _no_pipeline(b: Bench, encoder: int) -> None:
    b.dispatch(encoder)


def _no_buffer(b: Bench, encoder: int) -> None:
    b.send("setComputePipelineState:", encoder, b.pipeline)
    b.send("setBuffer:offset:atIndex:", encoder, b.a, 0, 0)
    b.dispatch(encoder)


def _many_lanes(b: Bench) -> None:
    encoder = b.compute(b.commands())
    b.dispatch(encoder, block=(65, 1, 1))
    b.send("endEncoding", encoder)


def _no_lanes(b: Bench) -> None:
    encoder = b.compute(b.commands())
    b.dispatch(encoder, block=(64, 0, 1))
    b.send("endEncoding", encoder)


def _no_groups(b: Bench) -> None:
    encoder = b.compute(b.commands())
    b.dispatch(encoder, grid=(1, 1, 0))
    b.send("endEncoding", encoder)


def _writes_outside(b: Bench) -> None:
    commands = b.commands()
    encoder = b.compute(commands)
    b.send("setBuffer:offset:atIndex:", encoder, b.b, 64, 1)
    b.dispatch(encoder)
    b.send("endEncoding", encoder)
    b.finish(commands)


def _copy(src_off: int, dst_off: int, nbytes: int, *, same: bool = False) -> Breaks:
    def broken(b: Bench) -> None:
        encoder = b.send("blitCommandEncoder", b.commands())
        selector = "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"
        b.send(selector, encoder, b.a, src_off, b.a if same else b.b, dst_off, nbytes)
        b.send("endEncoding", encoder)

    return broken


def _many_command_buffers(b: Bench) -> None:
    for _ in range(9):
        b.commands()


def _time_too_early(b: Bench) -> None:
    b.send("GPUEndTime", b.commands())


def _shape(most: int) -> Breaks:
    def broken(b: Bench) -> None:
        made = b.indirect(most)
        b.command(made, 0, barrier=False)
        made.release()

    return broken


def _indirect(*, barrier: bool, both: bool, resources: int, change: bool = False) -> Breaks:
    """Two commands, run with or without what they need."""

    def broken(b: Bench) -> None:
        made, commands = b.indirect(), b.commands()
        first = b.command(made, 0, barrier=False)
        if both:
            b.command(made, 1, barrier=barrier)
        encoder = b.send("computeCommandEncoder", commands)
        b.execute(encoder, made, *(b.a, b.b)[:resources])
        b.send("endEncoding", encoder)
        if change:
            b.send("setBarrier", first)
        b.finish(commands)
        made.release()

    return broken


def _range(b: Bench) -> None:
    made = b.indirect()
    encoder = b.send("computeCommandEncoder", b.commands())
    b.send("executeCommandsInBuffer:withRange:", encoder, made.handle, (1, 2))
    b.send("endEncoding", encoder)
    made.release()


def _private_contents(b: Bench) -> None:
    made = runtime().lib.made_up_buffer(0, BYTES, CONSTANTS["MTL::StorageModePrivate"])
    with suppress(DeviceError):
        b.send("contents", made)
    b.send("release", made)


def _no_class(b: Bench) -> None:
    b.api.functions["class_respondsToSelector"](b.a, b.api.selectors["length"])


def _leaked(b: Bench) -> None:
    b.send("newSharedEvent", b.device)


BROKEN: Final[dict[str, tuple[str, Breaks]]] = {
    **VALUES,
    "an object used after its last release": ("use after release", _released_then_used),
    "an object released twice": ("over-release", _released_twice),
    "a release of what a pool gives back": ("over-release", _released_below_its_pool),
    "an autoreleased object used after its pool": ("use after its pool", _used_after_its_pool),
    "pools drained out of order": ("pools out of order", _pools_crossed),
    "a message that the class does not have": ("unknown selector", _unknown_selector),
    "a message to nil": ("message to nil", _message_to_nil),
    "a message to what is no object": ("no object", _message_to_no_object),
    "an argument of another class": ("wrong class", _wrong_class),
    "a dispatch after endEncoding": ("encode after endEncoding", _encode_after_end),
    "endEncoding twice": ("endEncoding twice", _end_twice),
    "an encoder that goes without endEncoding": ("no endEncoding", _no_end),
    "two open encoders": ("two open encoders", _two_encoders),
    "a commit with an open encoder": ("commit with an open encoder", _commit_open),
    "a commit after another": ("commit twice", _commit_twice),
    "an encoder after the commit": ("encode after commit", _encode_after_commit),
    "an event while an encoder is open": ("two open encoders", _event_in_an_encoder),
    "an event that goes back": ("event goes back", _event_back),
    "a dispatch without a pipeline": ("no pipeline", _dispatch(_no_pipeline)),
    "a dispatch without one of its buffers": ("no buffer", _dispatch(_no_buffer)),
    "more lanes than the kernel allows": ("lanes", _many_lanes),
    "a threadgroup of no lanes": ("lanes", _no_lanes),
    "a grid of no threadgroups": ("grid", _no_groups),
    "a buffer bound from its end on": (
        "buffer offset",
        _dispatch(lambda b, e: b.send("setBuffer:offset:atIndex:", e, b.a, 256, 0)),
    ),
    "a buffer bound at an odd place": (
        "buffer offset",
        _dispatch(lambda b, e: b.send("setBuffer:offset:atIndex:", e, b.a, 2, 0)),
    ),
    "a buffer bound to a place that there is not": (
        "buffer index",
        _dispatch(lambda b, e: b.send("setBuffer:offset:atIndex:", e, b.a, 0, 31)),
    ),
    "a kernel that writes outside of a buffer": ("out of bounds", _writes_outside),
    "a copy beyond the end": ("copy", _copy(0, 4, 256)),
    "a copy of part of a word": ("copy", _copy(0, 0, 6)),
    "a copy onto itself": ("copy", _copy(0, 4, 64, same=True)),
    "more command buffers than the queue has": ("too many command buffers", _many_command_buffers),
    "a time before the end": ("time before the end", _time_too_early),
    "an indirect command with more buffers": ("buffer index", _shape(1)),
    "an indirect descriptor with too many": ("indirect descriptor", _shape(32)),
    "indirect commands without a barrier": (
        "no barrier", _indirect(barrier=False, both=True, resources=2)
    ),
    "an indirect command that is empty": (
        "empty indirect command", _indirect(barrier=True, both=False, resources=2)
    ),
    "an indirect command's buffer not resident": (
        "not resident", _indirect(barrier=True, both=True, resources=1)
    ),
    "an indirect command changed in use": (
        "changed while it runs", _indirect(barrier=True, both=True, resources=2, change=True)
    ),
    "a range outside of indirect commands": ("range", _range),
    "the host's address of a private buffer": ("private memory", _private_contents),
    "a question to what is no class": ("no class", _no_class),
    "a leak": ("leak", _leaked),
}  # fmt: skip


NO_POOL: Final = "no pool"
"""Broken by a thread of its own, below."""


def test_every_rule_of_the_runtime_is_broken() -> None:
    sources = sorted((Path(__file__).parent / "runtime").glob("*.[chS]"))
    known = re.findall(r'violate\(\s*"([^"]+)"', "\n".join(one.read_text() for one in sources))
    tested = {rule for rule, _ in BROKEN.values()} | {NO_POOL}
    check(set(known) == tested, f"{sorted(set(known) ^ tested)}")
    check(len(tested) == RULES, f"{len(tested)} rules: correct docs/metal.md, too")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_reported(name: str) -> None:
    rule, broken = BROKEN[name]
    made = runtime()
    clean()
    before = made.live()
    # what the driver notices by itself is an error: the report is what counts here
    with bench() as found, suppress(DeviceError):
        broken(found)
    lines = made.report()
    if made.live() > before or rule == "leak":
        lines += made.leaks()
    made.lib.made_up_forget()
    check(any(line.startswith(f"{rule}: ") for line in lines), f"{rule}: {lines}")


def test_what_breaks_no_rule_is_not_reported() -> None:
    made = runtime()
    clean()
    before = made.live()
    with bench() as b:
        commands = b.commands()
        encoder = b.compute(commands)
        b.dispatch(encoder)
        b.send("endEncoding", encoder)
        indirect = b.indirect()
        b.command(indirect, 0, barrier=False)
        b.command(indirect, 1, barrier=True)
        encoder = b.send("computeCommandEncoder", commands)
        b.execute(encoder, indirect, b.a, b.b)
        b.send("endEncoding", encoder)
        b.finish(commands)
        indirect.release()
        check(b.send("GPUEndTime", commands) >= b.send("GPUStartTime", commands) > 0, "a double")
        check(b.send("maxThreadsPerThreadgroup", b.device) == (1024, 1024, 1024), "a struct")
    check(made.report() == [], "no violation")
    check(made.live() == before, "all released")


def test_threads_need_a_pool_of_their_own() -> None:
    made = runtime()
    clean()
    lines: list[str] = []
    with bench() as b:

        def work() -> None:
            b.commands()
            lines.extend(made.report())

        thread = Thread(target=work)
        thread.start()
        thread.join()
    made.lib.made_up_forget()
    made.report()
    check(any(line.startswith(f"{NO_POOL}: ") for line in lines), f"{lines}")
