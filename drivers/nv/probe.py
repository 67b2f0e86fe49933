"""`python -m drivers.nv.probe [--json]`: the GPUs of NVIDIA's kernel driver. Exit status 0.

Nothing is opened or changed, unless --ask opens each usable GPU for a moment, to ask RM what it is,
or --smoke tests it: channels, copies, a kernel, a graph (exit status 1 when one fails). --board
inspects a software GPU instead, and asks it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.board_option import NOTE, add_board_option, in_front_of
from drivers.choice import VisibleList, choose, visible_lists
from drivers.gpu.smoke_outcome import Outcome
from drivers.gpu.smoke_report import smoke_json, smoke_lines, smoke_summary
from drivers.machine.output import print_text, width_chars
from drivers.nv.tools.about import ASK, About, ask
from drivers.nv.tools.look import UNHIDE, Access, Gpu, Look, look
from drivers.nv.tools.smoke import smoke
from drivers.world.linux import LinuxWorld
from unbound import terminal

_INDENT = " " * 12


def _problem(error: DeviceError) -> dict[str, str]:
    return {"kind": type(error).__name__, "reason": error.message, "advice": error.hint}


def _name(found: Look, gpu: Gpu) -> str:
    """NV:0, NV:1, ... count the GPUs whose node this user may open, by their PCI addresses."""
    return f"NV:{gpu.number}" if found.state(gpu) == "usable" else "-"


Answers = Mapping[str, About | DeviceError]
"""What RM said of each GPU that was asked, by address, or why it did not."""


def asked(world: World, found: Look) -> Answers:
    """Open every usable GPU for a moment."""
    answers: dict[str, About | DeviceError] = {}
    for gpu in found.gpus:
        if found.state(gpu) != "usable":
            continue
        try:
            answers[gpu.address] = ask(world, gpu.minor)
        except DeviceError as error:
            answers[gpu.address] = error
    return answers


def _answer_facts(answer: About | DeviceError | None) -> dict[str, object] | None:
    if isinstance(answer, About):
        return answer.facts()
    return dict(_problem(answer)) if answer is not None else None


def _answer_lines(gpu: Gpu, answers: Answers, *, usable: bool) -> list[str]:
    """What a GPU is: from files, and what RM said, or how to ask it."""
    lines = _wrapped("", ", ".join(f"{key} {text}" for key, text in gpu.facts.items()))
    answer = answers.get(gpu.address)
    if isinstance(answer, About):
        return [*(part for line in answer.lines() for part in _wrapped("", line)), *lines]
    if answer is not None:
        lines += [*_wrapped("", answer.message), *_wrapped("", f"-> {answer.hint}")]
    return [*lines, *(_wrapped("", f"-> {ASK}") if usable and not answers else [])]


def as_facts(found: Look, answers: Answers) -> dict[str, object]:
    """One object for JSON; `gpus` has one for each GPU."""
    return {
        "control": asdict(found.control),
        "uvm": asdict(found.uvm),
        "version": found.version or None,
        "module": found.title or None,
        "problem": _problem(found.problem) if found.problem else None,
        "note": found.note or None,
        "unmanaged": [asdict(other) for other in found.unmanaged],
        "gpus": [
            {
                "name": _name(found, gpu),
                "state": found.state(gpu),
                "product": gpu.product or None,
                "minor": gpu.minor,
                "pci": {"address": gpu.address, "device": f"{gpu.device:04x}"},
                "node": asdict(gpu.node),
                "hidden": gpu.hidden or None,
                "facts": dict(gpu.facts),
                "rm": _answer_facts(answers.get(gpu.address)),
            }
            for gpu in found.gpus
        ],
    }


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, width_chars(), initial_indent=f"{start:<12}", subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )  # fmt: skip


def _access_lines(start: str, seen: Access) -> list[str]:
    lines = _wrapped(start, seen.reason)
    return lines if seen.ok else [*lines, *_wrapped("", f"-> {seen.advice}")]


def as_table(found: Look, answers: Answers) -> str:
    """The kernel driver, every GPU, and each obstacle with what to do."""
    lines = [*_access_lines("RM", found.control), *_access_lines("UVM", found.uvm)]
    if found.version:
        lines += _wrapped("driver", found.title or found.version)
    if found.problem is not None:
        lines += _wrapped("", found.problem.message)
        lines += _wrapped("", f"-> {found.problem.hint}") if found.problem.hint else []
    lines += _wrapped("", f"note: {found.note}") if found.note else []
    for gpu in found.gpus:
        device = f" 10de:{gpu.device:04x}" if gpu.device else ""
        what = f"{gpu.product or 'GPU'}{device} at {gpu.address}: {found.state(gpu)}"
        lines += _wrapped(_name(found, gpu), what)
        lines += _answer_lines(gpu, answers, usable=found.state(gpu) == "usable")
        lines += _access_lines("", gpu.node)
        lines += [*_wrapped("", gpu.hidden), *_wrapped("", f"-> {UNHIDE}")] if gpu.hidden else []
    for other in found.unmanaged:
        lines += [*_wrapped("-", other.reason), *_wrapped("", f"-> {other.advice}")]
    if not found.gpus:
        lines += _wrapped("", "NVIDIA's kernel driver has no GPU")
    return "\n".join(lines)


def run_smoke(
    world: World, found: Look, visible: tuple[VisibleList, ...] = ()
) -> dict[str, list[Outcome]]:
    """Test every usable GPU. Raises: CompileError."""
    from compilers.nv.smoke import firmware

    usable = [_name(found, gpu) for gpu in found.gpus if found.state(gpu) == "usable"]
    choices = {name: replace(choose({}, name), visible=visible) for name in sorted(usable)}
    return {name: list(smoke(world, choice, firmware)) for name, choice in choices.items()}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m drivers.nv.probe", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--smoke", action="store_true", help="open the GPUs and test every engine")
    parser.add_argument("--ask", action="store_true", help="open each GPU for a moment to ask it")
    add_board_option(parser, "NV", "ga102")
    return parser.parse_args(arguments)


def probe(
    arguments: Sequence[str], world: World | None = None, environ: Mapping[str, str] | None = None
) -> tuple[str, int]:
    """What the command prints, and its exit status. Raises: DeviceError."""
    chosen = parse(arguments)
    front = in_front_of(chosen.board, "NVK") if chosen.board else None
    machine = front.world if front is not None else world or LinuxWorld()
    settings = environ if environ is not None or front is not None else os.environ
    visible = visible_lists(settings or {}, "NV")
    found = look(machine, visible)
    answers = asked(machine, found) if chosen.ask or front is not None else {}
    outcomes = run_smoke(machine, found, visible) if chosen.smoke else {}
    violations = [] if front is None else front.violations()
    passed = bool(outcomes) and all(one.ok for tests in outcomes.values() for one in tests)
    failed = bool(violations) or (chosen.smoke and not passed)
    shown = (_as_json if chosen.json else _as_text)(chosen, found, answers, outcomes, violations)
    return shown, int(failed)


def _as_json(
    chosen: argparse.Namespace, found: Look, answers: Answers,
    outcomes: Mapping[str, list[Outcome]], violations: list[str],
) -> str:  # fmt: skip
    facts = as_facts(found, answers)
    if chosen.smoke:
        facts["smoke"] = smoke_json(outcomes)
    if chosen.board:
        facts["board"] = {"chip": chosen.board, "note": NOTE, "violations": violations}
    return json.dumps(facts, indent=2)


def _as_text(
    chosen: argparse.Namespace, found: Look, answers: Answers,
    outcomes: Mapping[str, list[Outcome]], violations: list[str],
) -> str:  # fmt: skip
    lines = [f"board {chosen.board}: {NOTE}"] if chosen.board else []
    lines.append(as_table(found, answers))
    for name, tests in outcomes.items():
        lines += smoke_lines(name, tests)
    if chosen.smoke and not outcomes:
        lines += _wrapped("-", "no test was run: there is no usable GPU")
    lines += smoke_summary(outcomes)
    return "\n".join([*lines, *(f"violation: {violation}" for violation in violations)])


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
