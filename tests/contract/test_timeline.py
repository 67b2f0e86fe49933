"""A timeline of every device: each kernel and copy once, in order, at the host's time."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from drivers.base.contracts import Device, Param, World
from drivers.timeline.attach import attach
from tests.contract.arrays import get, put, ramp
from tests.contract.conftest import COUNT
from tests.contract.devices import Entry
from tests.contract.kernels import combine
from tests.contract.test_launches import WANTED, operands, whole
from tests.support import check

NBYTES = 4 * COUNT
REPLAYS = 3
US = 1e6


def world_of(device: Any) -> World:
    """Whose clock its waits are of."""
    found: World = device.world if hasattr(device, "world") else device.iface.world
    return found


def work(entry: Entry, device: Device) -> str:
    """Two launches, a queue, a copy, and a graph of two kernels three times; the kernel's name."""
    program = device.load(entry.build(combine(device.limits, COUNT), device))
    a, b, c = operands(device)
    for _ in range(2):
        device.launch(program, [a, b, c], whole(device))
    device.compute_queue().exec(program, [a, b, c], (whole(device), 1, 1)).submit()
    np.testing.assert_array_equal(get(device, c), WANTED)
    other = put(device, np.zeros(COUNT, np.int32))
    device.copy_queue().copy(other, c, NBYTES).submit()
    np.testing.assert_array_equal(get(device, other), WANTED)
    queue = device.compute_queue()
    for _ in range(2):
        queue.exec(program, [a, b, Param(0)], (whole(device), 1, 1))
    graph = queue.bind()
    for _ in range(REPLAYS):
        result = put(device, ramp(COUNT))
        graph.replay([result])
        np.testing.assert_array_equal(get(device, result), WANTED)
    graph.replay([c])
    device.synchronize()
    return program.name


def tracks(events: list[Any]) -> dict[int, list[Any]]:
    """Slices of each track."""
    found: dict[int, list[Any]] = {}
    for event in events:
        if event["ph"] == "X":
            found.setdefault(event["tid"], []).append(event)
    return found


def test_a_timeline(entry: Entry, own: Device, tmp_path: Path) -> None:
    world, path = world_of(own), tmp_path / "out.json"
    begun_s = world.monotonic_s()
    attach(own, world, str(path))
    name = work(entry, own)
    own.close()
    ended_s = world.monotonic_s()
    events = json.loads(path.read_text())
    compute, copies, host = (tracks(events)[number] for number in (1, 2, 3))
    graphed = ["graph" in event["args"] for event in compute]
    check(graphed == [False] * 3 + [True] * 2 * (REPLAYS + 1), f"{compute}")
    check({event["name"] for event in compute} == {name}, f"{compute}")
    check([event["args"]["bytes"] for event in copies] == [NBYTES], f"{copies}")
    check({event["name"] for event in host} == {"copy_in", "copy_out"}, f"{host}")
    check({event["args"]["bytes"] for event in host} == {NBYTES}, f"{host}")
    for track in (compute, copies, host):
        for event in track:
            ended_us = event["ts"] + event["dur"]
            check(event["dur"] >= 0, f"{event}")
            inside = begun_s * US - 1 <= event["ts"] and ended_us <= ended_s * US + 1
            check(inside, f"{event}: from {begun_s} to {ended_s} s")
        for before, after in pairwise(track):
            check(before["ts"] + before["dur"] <= after["ts"] + 1e-3, f"{before}, then {after}")
    check(not [event for event in events if event["ph"] == "i"], "steps without times")
