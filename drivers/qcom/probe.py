"""`python -m drivers.qcom.probe [--json]`: this machine's Adreno, and the ways to it.

Nothing is opened or changed, and the exit status is 0, unless --smoke asks to test every usable
way: queues, copies, a kernel, a graph (exit status 1 when one fails). --board inspects a software
GPU instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from drivers.base.contracts import Firmware, World
from drivers.base.errors import DeviceError
from drivers.board_option import NOTE, add_board_option, in_front_of
from drivers.choice import Choice, choose
from drivers.gpu import smoke_tests as tests
from drivers.gpu.smoke_outcome import COPY_BYTES, Outcome, Wrong, timed
from drivers.gpu.smoke_report import smoke_json, smoke_lines, smoke_summary
from drivers.machine.output import print_text, width_chars
from drivers.qcom.device import QcomDevice
from drivers.qcom.look import Look, firmware_advice, look
from drivers.qcom.opening import open_qcom
from drivers.world.linux import LinuxWorld
from queues.qcom.pm4 import WORD_BYTES
from unbound import terminal

_INDENT: Final = " " * 12
WORDS: Final = tuple(
    dict.fromkeys(max(WORD_BYTES, nbytes - nbytes % WORD_BYTES) for nbytes in COPY_BYTES)
)
"""Sizes of copies: whole words, at least one."""
MEMORY: Final = "GPU memory"
"""It is the machine's, mapped for the GPU: an Adreno has none of its own."""


def smoke(world: World, choice: Choice, firmware: Firmware) -> Iterator[Outcome]:
    """Every test of one way, each as soon as it is done."""
    with ExitStack() as stack:
        opened: list[QcomDevice] = []
        yield timed(world, "open", partial(_open, world, choice, stack, opened))
        for device in opened:
            yield timed(world, "compute queue", partial(tests.ring, device))
            yield timed(world, "kernel", partial(tests.kernel, device, firmware))
            yield timed(world, "graph", partial(tests.graph, device, firmware))
            for whole in WORDS:
                test = partial(tests.copies, device, whole, MEMORY)
                yield timed(world, f"copies of {whole} bytes", test)
    for device in opened:
        yield timed(world, "close", partial(_left, device))


def _open(world: World, choice: Choice, stack: ExitStack, opened: list[QcomDevice]) -> str:
    device = stack.enter_context(open_qcom(world, choice))
    opened.append(device)
    return f"{device.name}, {device.arch}, {device.iface.name}"


def _left(device: QcomDevice) -> str:
    """Nothing is held by a closed device."""
    held = device.iface.bytes_held
    if held:
        raise Wrong(f"{held} bytes of memory are still held", hint="report it")
    return "nothing is left"


def as_facts(found: Look) -> dict[str, object]:
    """One object for JSON."""
    return {
        "nodes": [
            {
                "way": node.way,
                "path": node.path,
                "title": node.title,
                "ok": node.ok,
                "reason": node.reason,
                "advice": node.advice,
                "readings": node.readings.facts(),
            }
            for node in found.nodes
        ],
        "android": found.android,
        "selinux": found.enforcing,
        "firmware_lacks": list(found.lacks),
    }


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, width_chars(), initial_indent=f"{start:<12}", subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )  # fmt: skip


def as_table(found: Look) -> list[str]:
    """Every way, and each obstacle with what to do."""
    lines: list[str] = []
    for node in found.nodes:
        lines += _wrapped(node.way, f"{node.title}: {node.reason}")
        lines += _wrapped("", f"-> {node.advice}") if node.advice else []
        for line in node.readings.lines():
            lines += _wrapped("", line)
    if not found.nodes:
        lines += _wrapped("-", "this machine has no Adreno: neither /dev/kgsl-3d0 nor msm")
    lacks = firmware_advice(found)
    return [*lines, *(_wrapped("", lacks) if lacks else [])]


def run_smoke(world: World, found: Look) -> dict[str, list[Outcome]]:
    """Test every usable way. Raises: CompileError."""
    from compilers.qcom.smoke import firmware

    ways = dict.fromkeys(node.way for node in found.nodes if node.ok)
    return {
        f"QCOM {way}": list(smoke(world, choose({"QCOM": "1", "QCOM_IFACE": way}), firmware))
        for way in ways
    }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m drivers.qcom.probe", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--smoke", action="store_true", help="open the GPU and test its queues")
    parser.add_argument("--iface", choices=("KGSL", "MSM"), default="KGSL", help="of the board")
    add_board_option(parser, "QCOM", "a630")
    return parser.parse_args(arguments)


def probe(arguments: Sequence[str], world: World | None = None) -> tuple[str, int]:
    """What the command prints, and its exit status. Raises: DeviceError."""
    chosen = parse(arguments)
    front = in_front_of(chosen.board, chosen.iface) if chosen.board else None
    machine = front.world if front is not None else world or LinuxWorld()
    found = look(machine)
    outcomes = run_smoke(machine, found) if chosen.smoke else {}
    violations = [] if front is None else front.violations()
    passed = bool(outcomes) and all(one.ok for each in outcomes.values() for one in each)
    failed = bool(violations) or (chosen.smoke and not passed)
    if chosen.json:
        facts = as_facts(found)
        if chosen.smoke:
            facts["smoke"] = smoke_json(outcomes)
        if chosen.board:
            facts["board"] = {"chip": chosen.board, "note": NOTE, "violations": violations}
        return json.dumps(facts, indent=2), int(failed)
    lines = [f"board {chosen.board}: {NOTE}"] if chosen.board else []
    lines += as_table(found)
    for name, each in outcomes.items():
        lines += smoke_lines(name, each)
    if chosen.smoke and not outcomes:
        lines += _wrapped("-", "no test was run: there is no usable GPU")
    lines += smoke_summary(outcomes)
    return "\n".join([*lines, *(f"violation: {one}" for one in violations)]), int(failed)


def command(arguments: Sequence[str]) -> int:
    """The command: print, and the exit status."""
    try:
        text, status = probe(arguments)
    except DeviceError as error:
        sys.stderr.write(f"probe: {error}\n")
        return 1
    return print_text(text) or status


if __name__ == "__main__":
    terminal.run(command)
