"""`python -m drivers.amd.probe [--json]`: the AMD GPUs that KFD manages. Exit status 0.

Nothing is opened, claimed or changed, unless --smoke asks to test every engine of every usable GPU
(exit status 1 when one fails). --board inspects a software GPU instead of this machine.
--iface PCI shows the AMD GPUs on PCI, and what stands between each and AMD_IFACE=PCI; --dry-run
prints every step that claiming would take, and takes none; --smoke claims and boots them.
--iface USB shows enclosures with an ASM2464PD, and what stands between each and AMD_IFACE=USB;
--smoke boots the GPUs in them, and prints how often each test waited for the cable.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from drivers.amd.claim_chips import dry_run
from drivers.amd.enclosed import enclosure_facts, enclosure_table
from drivers.amd.kfd.discovery import HwId
from drivers.amd.kfd.offers import UNMASK
from drivers.amd.pci.survey import NONE, candidates
from drivers.amd.tools.look import Access, Gpu, Look, look
from drivers.amd.tools.smoke import smoke
from drivers.bare.survey_report import pci_facts, pci_table
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.base.pci import StateStore
from drivers.board_option import NOTE, add_board_option, check_board, in_front_of
from drivers.choice import VisibleList, choose, visible_lists
from drivers.gpu.smoke_outcome import Outcome
from drivers.gpu.smoke_report import smoke_json, smoke_lines, smoke_summary
from drivers.machine.output import print_text, width_chars
from drivers.pci.functions import listing
from drivers.usb.asm24.enclosures import enclosures
from drivers.usb.asm24.usb4 import usb4_enclosures
from drivers.world.linux import LinuxWorld
from unbound import terminal

_INDENT = " " * 12
_GIB = 1 << 30
_MASKED = "hidden from this process by the device cgroup"


def state(found: Look, gpu: Gpu) -> str:
    """ "usable", or the first reason why it is not."""
    if gpu.masked:
        return "hidden"
    if not gpu.supported:
        return "not supported" if gpu.chip is None else "not usable"
    return "usable" if found.kfd.ok and gpu.numbered else "not usable"


def _problem(error: DeviceError) -> dict[str, str]:
    return {"kind": type(error).__name__, "reason": error.message, "advice": error.hint}


def _gpu_json(found: Look, gpu: Gpu, name: str) -> dict[str, object]:
    node, chip = gpu.node, gpu.chip
    return {
        "name": name,
        "state": state(found, gpu),
        "machine_ready": gpu.numbered and found.kfd.ok,
        "chip": chip.name if chip else None,
        "family": chip.family.name if chip else None,
        "product": chip.product if chip else None,
        "gfx_target_version": node.gfx_target_version,
        "pci": {
            "address": node.pci_address,
            "vendor": f"{node.vendor_id:04x}",
            "device": f"{node.device_id:04x}",
        },
        "kfd_node": node.index,
        "gpu_id": node.gpu_id,
        "compute_units": node.cus,
        "xccs": node.num_xcc,
        "clock_mhz": node.clock_mhz,
        "vram_bytes": node.vram_bytes,
        "memory_bytes": node.memory_bytes,
        "vram_host_visible": node.host_visible,
        "queues": {
            "compute": node.cp_queues,
            "sdma_engines": node.sdma_engines,
            "sdma_xgmi_engines": node.sdma_xgmi_engines,
            "per_sdma_engine": node.sdma_queues_per_engine,
        },
        "save_area": asdict(gpu.area) if gpu.area else None,
        "ip": _ip(gpu),
        "firmware": {key: f"{version:#x}" for key, version in gpu.firmware.items()},
        "masked": gpu.masked,
        "render_node": asdict(gpu.render),
        "problems": [_problem(error) for error in gpu.problems],
        "notes": [_problem(error) for error in gpu.notes],
    }


def _ip(gpu: Gpu) -> dict[str, str]:
    """Kinds of block and their versions."""
    found: dict[HwId, set[str]] = {}
    for block in gpu.blocks:
        if not block.harvested:
            found.setdefault(block.hw_id, set()).add(block.version_text)
    return {hw_id.name: ", ".join(sorted(versions)) for hw_id, versions in found.items()}


def as_facts(found: Look) -> dict[str, object]:
    """One object for JSON; `gpus` has one for each GPU."""
    gpus = zip(found.gpus, found.names(), strict=True)
    return {
        "kfd": asdict(found.kfd),
        "problem": _problem(found.problem) if found.problem else None,
        "hidden_nodes": list(found.hidden),
        "broken_nodes": [{"kfd_node": node.index, **_problem(node.error)} for node in found.broken],
        "unmanaged": [asdict(other) for other in found.unmanaged],
        "gpus": [_gpu_json(found, gpu, name) for gpu, name in gpus],
    }


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, width_chars(), initial_indent=f"{start:<12}", subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )  # fmt: skip


def _access_lines(start: str, seen: Access) -> list[str]:
    lines = _wrapped(start, seen.reason)
    return lines if seen.ok else [*lines, *_wrapped("", f"-> {seen.advice}")]


def _title(found: Look, gpu: Gpu) -> str:
    node, chip = gpu.node, gpu.chip
    what = f"{chip.name} {chip.product}" if chip else f"{node.vendor_id:04x}:{node.device_id:04x}"
    return f"{what} at {node.pci_address}, KFD node {node.index}: {state(found, gpu)}"


def _queues(gpu: Gpu) -> str:
    node = gpu.node
    engines = node.sdma_engines + node.sdma_xgmi_engines
    text = f"queues: {node.cp_queues} compute, {engines} SDMA engine{'s' * (engines != 1)}"
    text += f" with {node.sdma_queues_per_engine} queues each"
    if gpu.area:
        text += f"; each compute queue saves its waves in {gpu.area.total_bytes / 2**20:.1f} MiB"
    return text


def _facts(gpu: Gpu) -> Iterator[str]:
    node = gpu.node
    xccs = f" in {node.num_xcc} XCCs" if node.num_xcc > 1 else ""
    vram = f"{node.vram_bytes / _GIB:.1f} GiB VRAM" if node.vram_bytes else "no VRAM of its own"
    visible = ", all of it host-visible" if node.vram_bytes and node.host_visible else ""
    if gpu.chip is not None and gpu.chip.integrated:
        what = "shared with the processor" if node.unified else f"{vram} and system memory"
        vram, visible = f"{node.memory_bytes / _GIB:.1f} GiB, {what}", ""
    yield f"{node.cus} compute units{xccs} at {node.clock_mhz} MHz, {vram}{visible}"
    yield _queues(gpu)
    if gpu.blocks:
        yield "blocks: " + ", ".join(f"{name} {version}" for name, version in _ip(gpu).items())
    if gpu.firmware:
        shown = (f"{name} {version:#x}" for name, version in gpu.firmware.items())
        yield "firmware: " + ", ".join(shown)


def _gpu_lines(found: Look, gpu: Gpu, name: str) -> list[str]:
    lines = _wrapped(name, _title(found, gpu))
    if gpu.masked:
        lines += [*_wrapped("", gpu.masked), *_wrapped("", f"-> {UNMASK}")]
    for fact in _facts(gpu):
        lines += _wrapped("", fact)
    for error in gpu.problems:
        lines += _wrapped("", error.message)
        lines += _wrapped("", f"-> {error.hint}") if error.hint else []
    for note in gpu.notes:
        lines += _wrapped("", f"note: {note.message}")
    return lines + _access_lines("", gpu.render)


def as_table(found: Look) -> str:
    """Every GPU with its facts, and each obstacle with what to do."""
    lines = _access_lines("KFD", found.kfd)
    if found.problem:
        lines += _wrapped("topology", found.problem.message)
        lines += _wrapped("", f"-> {found.problem.hint}") if found.problem.hint else []
    for gpu, name in zip(found.gpus, found.names(), strict=True):
        lines += _gpu_lines(found, gpu, name)
    for index in found.hidden:
        lines += _wrapped("-", f"KFD node {index}: {_MASKED}")
    for node in found.broken:
        lines += _wrapped("-", f"KFD node {node.index} is passed over: {node.error.message}")
        lines += _wrapped("", f"-> {node.error.hint}") if node.error.hint else []
    for other in found.unmanaged:
        lines += [*_wrapped("-", other.reason), *_wrapped("", f"-> {other.advice}")]
    if not found.problem and not found.gpus:
        lines += _wrapped("", "KFD manages no GPU that this process may see")
    return "\n".join(lines)


def run_smoke(
    world: World, found: Look, visible: tuple[VisibleList, ...] = ()
) -> dict[str, list[Outcome]]:
    """Test every usable GPU. Raises: CompileError."""
    from compilers.amd.smoke import firmware

    given = zip(found.gpus, found.names(), strict=True)
    usable = [name for gpu, name in given if state(found, gpu) == "usable"]
    choices = {name: replace(choose({}, name), visible=visible) for name in usable}
    return {name: list(smoke(world, choice, firmware)) for name, choice in choices.items()}


@dataclass(frozen=True, slots=True)
class Report:
    """What the probe found, as text and as JSON, with results of engines that were tested."""

    text: str
    facts: Mapping[str, object]
    outcomes: Mapping[str, list[Outcome]]
    idle: str
    """Why no engine was tested, if none was."""


def probe_kfd(
    chosen: argparse.Namespace, world: World, environ: Mapping[str, str] | None = None
) -> Report:
    """The GPUs that KFD manages; with --smoke usable ones are tested."""
    visible = visible_lists(environ or {}, "AMD")
    found = look(world, visible)
    outcomes = run_smoke(world, found, visible) if chosen.smoke else {}
    return Report(as_table(found), as_facts(found), outcomes, "there is no usable GPU")


def probe_pci(
    chosen: argparse.Namespace, world: World, environ: Mapping[str, str], state: StateStore | None
) -> Report:
    """The GPUs on PCI; with --smoke those that can be are claimed, booted and tested."""
    idle = "no GPU can be claimed"
    if chosen.dry_run:
        text = dry_run(world)
        return Report(text, {"dry_run": text.splitlines()}, {}, idle)
    found = candidates(world, choose(environ))
    ready = [one for one in found if one.ready and chosen.smoke]
    outcomes = {one.name: list(_smoke(world, environ, one.name, "PCI", state)) for one in ready}
    unread = listing(world)[1]
    return Report(pci_table(found, NONE, unread), pci_facts(found, unread), outcomes, idle)


def probe_usb(
    chosen: argparse.Namespace, world: World, environ: Mapping[str, str], state: StateStore | None
) -> Report:
    """The enclosures on USB; with --smoke the GPUs in those that can be used are tested."""
    found, tunnels = enclosures(world), usb4_enclosures(world)
    ready = [f"AMD:{number}" for number, one in enumerate(found) if one.usable and chosen.smoke]
    outcomes = {name: list(_smoke(world, environ, name, "USB", state)) for name in ready}
    idle = "no enclosure can be used"
    return Report(enclosure_table(found, tunnels), enclosure_facts(found, tunnels), outcomes, idle)


def _smoke(
    world: World, environ: Mapping[str, str], name: str, iface: str, state: StateStore | None
) -> Iterator[Outcome]:
    from compilers.amd.smoke import firmware

    choice = replace(choose(environ, name), iface=iface)
    return smoke(world, choice, firmware, state)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m drivers.amd.probe", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--smoke", action="store_true", help="open the GPUs and test every engine")
    add_board_option(parser, "AMD")
    parser.add_argument(
        "--iface", choices=("KFD", "PCI", "USB"), default="KFD",
        help="PCI, and USB in an enclosure: without a kernel driver",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="with PCI: what claiming would do")
    chosen = parser.parse_args(arguments)
    if chosen.dry_run and chosen.iface != "PCI":
        parser.error("--dry-run needs --iface PCI: nothing is claimed otherwise")
    if chosen.dry_run and chosen.smoke:
        parser.error("--dry-run touches nothing, and --smoke tests everything: choose one")
    check_board(parser, chosen.board, chosen.iface)
    return chosen


def probe(
    arguments: Sequence[str],
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
    state: StateStore | None = None,
) -> tuple[str, int]:
    """What the command prints, and its exit status. Raises: DeviceError."""
    chosen = parse(arguments)
    front = in_front_of(chosen.board, chosen.iface) if chosen.board else None
    if front is not None:
        world, environ, state = front.world, front.environ, front.state
    if world is None:
        world = LinuxWorld()
    settings = os.environ if environ is None else environ
    if chosen.iface == "PCI":
        report = probe_pci(chosen, world, settings, state)
    elif chosen.iface == "USB":
        report = probe_usb(chosen, world, settings, state)
    else:
        report = probe_kfd(chosen, world, settings)
    violations = [] if front is None else front.violations()
    passed = bool(report.outcomes) and all(
        one.ok for tests in report.outcomes.values() for one in tests
    )
    failed = bool(violations) or (chosen.smoke and not passed)
    return (_as_json if chosen.json else _as_text)(chosen, report, violations), int(failed)


def _as_json(chosen: argparse.Namespace, report: Report, violations: list[str]) -> str:
    facts = dict(report.facts)
    if chosen.smoke:
        facts["smoke"] = smoke_json(report.outcomes)
    if chosen.board:
        facts["board"] = {"chip": chosen.board, "note": NOTE, "violations": violations}
    return json.dumps(facts, indent=2)


def _as_text(chosen: argparse.Namespace, report: Report, violations: list[str]) -> str:
    lines = [f"board {chosen.board}: {NOTE}"] if chosen.board else []
    lines.append(report.text)
    for name, tests in report.outcomes.items():
        lines += smoke_lines(name, tests)
    if chosen.smoke and not report.outcomes:
        lines += _wrapped("-", f"no test was run: {report.idle}")
    lines += smoke_summary(report.outcomes)
    return "\n".join([*lines, *(f"violation: {violation}" for violation in violations)])


def main(arguments: Sequence[str], world: World | None = None) -> str:
    """What the command prints."""
    return probe(arguments, world)[0]


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
