"""Hand a dispatch to the compute units and report what became of it."""

from __future__ import annotations

from boards.amd.cp.context import Context, Endless
from boards.amd.cp.engine_types import Chip
from boards.amd.cp.registers import scratch_wave_bytes, scratch_waves
from boards.amd.cp.trap import enter
from boards.amd.isa.families import FAMILIES
from boards.amd.wave.execute import execute
from boards.amd.wave.start import waves_per_group
from boards.amd.wave.types import Dispatch, Report, WaveFault
from boards.machine.clock import NS_PER_TICK

# src: HSA runtime: no workgroup has more work-items; hardware's limit is the same.
GROUP_ITEMS_MAX = 1024


def shader_engines(chip: Chip) -> int:
    """Shader engines, from the counts that sysfs prints; 1 when the chip does not say."""
    arrays = chip.properties.get("array_count", 1)
    return max(1, arrays // max(1, chip.properties.get("simd_arrays_per_engine", 1)))


def finds_own_scratch(chip: Chip) -> bool:
    """Whether kernels learn from user registers where scratch is, not the hardware from its own.

    # src: LLVM AMDGPUUsage, "Flat Scratch": gfx9 up to gfx90a, and gfx10
    """
    return FAMILIES[chip.name].own_scratch


def scratch_of(chip: Chip, tmpring: int) -> tuple[int, int]:
    """(bytes of a wave's scratch, waves that have some) by COMPUTE_TMPRING_SIZE."""
    waves = scratch_waves(chip.family, tmpring, shader_engines(chip))
    return scratch_wave_bytes(chip.family, tmpring), waves


def check_size(context: Context, dispatch: Dispatch) -> None:
    """Raises: PacketFault for a workgroup that no compute unit can hold."""
    x, y, z = dispatch.workgroup
    if not 0 < x * y * z <= GROUP_ITEMS_MAX:
        raise context.fault("invalid dispatch", f"a workgroup of {x} x {y} x {z} work-items")
    limit = context.host.chip.lds_bytes
    if dispatch.lds_bytes > limit:
        raise context.fault("invalid dispatch", f"{dispatch.lds_bytes} bytes LDS of {limit}")
    if dispatch.scratch_wave_bytes and dispatch.scratch_waves < waves_per_group(dispatch):
        raise context.fault("invalid dispatch", "scratch has no room for one workgroup")


def _ticks(begin: int, report: Report, at_ns: int) -> int:
    """A moment of a launch on the board's clock, which counted `begin` when it began."""
    return begin + (at_ns - report.batches[0].start_ns) // NS_PER_TICK


def launch(context: Context, dispatch: Dispatch) -> None:
    """Run a dispatch to its end. Raises: WaveFault, MemoryFault, PacketFault, Hung."""
    chip, host = context.host.chip, context.host
    check_size(context, dispatch)
    family = FAMILIES.get(chip.name)
    if family is None:
        detail = f"no executor for {chip.name}; use a board whose instructions it has"
        raise context.fault("unsupported", detail)
    if 0 in dispatch.groups:
        context.find("empty dispatch", f"groups {dispatch.groups}")
        return
    if context.waves.behind_host:
        context.find("no acquire", "caches were filled before the host rang: arguments may be old")
    begin = host.ticks()
    context.waves.started()
    try:
        report = execute(dispatch, context.waves, context.strict, family)
    except WaveFault as fault:
        host.trace(
            "fault", queue=context.spec.queue_id, kind=fault.kind, entry=dispatch.entry,
            pc=fault.pc, wave=fault.wave, lane=fault.lane, va=fault.va, access=fault.access,
            detail=fault.detail, lanes=dispatch.lanes, begin=begin, end=host.ticks(),
        )  # fmt: skip
        if fault.kind == "endless":
            raise Endless(str(fault)) from fault
        enter(context, dispatch, fault, family)
        raise
    for violation in report.violations:
        host.find(violation.kind, f"queue {context.spec.queue_id}, {violation}")
        host.trace(
            "violation", queue=context.spec.queue_id, kind=violation.kind, what=violation.what,
            entry=dispatch.entry, pc=violation.pc, wave=violation.wave, lanes=dispatch.lanes,
        )  # fmt: skip
    for batch in report.batches:
        host.trace(
            "waves", queue=context.spec.queue_id, first=batch.first, waves=batch.waves,
            begin=_ticks(begin, report, batch.start_ns), end=_ticks(begin, report, batch.end_ns),
        )  # fmt: skip
    x, y, z = dispatch.groups
    host.trace(
        "dispatch", queue=context.spec.queue_id, entry=dispatch.entry, groups=x * y * z,
        waves=report.waves, steps=report.steps, begin=begin, end=host.ticks(),
    )  # fmt: skip
