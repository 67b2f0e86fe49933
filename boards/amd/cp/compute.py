"""PM4 packets that set registers and start dispatches."""

from __future__ import annotations

from boards.amd.cp.context import bits, dwords, join
from boards.amd.cp.launch import finds_own_scratch, launch, scratch_of
from boards.amd.cp.registers import (
    NUM_THREAD_X,
    PGM_HI,
    PGM_LO,
    PGM_RSRC1,
    PGM_RSRC2,
    PGM_RSRC3,
    RESOURCE_LIMITS,
    SCRATCH_BASE_HI,
    SCRATCH_BASE_LO,
    SH_NAMES,
    SH_WORDS,
    START_X,
    TMPRING_SIZE,
    UCONFIG_WORDS,
    USER_DATA_0,
    USER_DATA_COUNT,
    lds_bytes,
    scratch_enabled,
    user_sgprs,
)
from boards.amd.cp.state import State
from boards.amd.wave.types import Dispatch

# src: *_sh_mask.h COMPUTE_DISPATCH_INITIATOR.
_SHADER_EN, _PARTIAL_TG, _FORCE_START, _THREADS, _WAVE32 = 0, 1, 2, 5, 15
_ADDRESS_HIGH_BITS = 8
_CODE_SHIFT = 8
_THREADS_XYZ = range(NUM_THREAD_X, NUM_THREAD_X + 3)
_NEEDED = (PGM_LO, PGM_HI, PGM_RSRC1, PGM_RSRC2, RESOURCE_LIMITS, *_THREADS_XYZ)


def set_sh_reg(state: State, words: tuple[int, ...]) -> bool:
    """Payload: offset from 0x2c00, values."""
    if words[0] + len(words) - 1 > SH_WORDS:
        raise state.context.fault("wrong length", "beyond the SH registers")
    state.set_sh(words[0], words[1:])
    return True


def set_uconfig_reg(state: State, words: tuple[int, ...]) -> bool:
    """Payload: offset from 0xc000, values."""
    if words[0] + len(words) - 1 > UCONFIG_WORDS:
        raise state.context.fault("wrong length", "beyond the UCONFIG registers")
    state.set_uconfig(words[0], words[1:])
    return True


def dispatch_direct(state: State, words: tuple[int, ...]) -> bool:
    """Payload: three dimensions, initiator."""
    _dispatch(state, (words[0], words[1], words[2]), words[3])
    return True


def dispatch_indirect(state: State, words: tuple[int, ...]) -> bool:
    """Payload: address of three dimensions, initiator."""
    context = state.context
    va = context.aligned(join(words[0], words[1]), 4)
    x, y, z = dwords(context.read(va, 12))
    _dispatch(state, (x, y, z), words[2])
    return True


def _registers(state: State) -> dict[int, int]:
    """The registers of a dispatch; all dies must agree on them. Raises: PacketFault."""
    context, chip = state.context, state.context.host.chip
    if state.xccs != state.everyone:
        raise context.fault("unsupported", "a dispatch on some XCCs only")
    own = state.sh[0]
    names = SH_NAMES[chip.family]
    needed = [*_NEEDED, PGM_RSRC3[chip.family]]
    if PGM_RSRC2 in own:
        count = user_sgprs(own[PGM_RSRC2])
        if count > USER_DATA_COUNT:
            raise context.fault("reserved value", f"{count} user registers")
        needed += [USER_DATA_0] if count else []
        if scratch_enabled(own[PGM_RSRC2]):
            needed += [TMPRING_SIZE]
            needed += [] if finds_own_scratch(chip) else [SCRATCH_BASE_LO, SCRATCH_BASE_HI]
    missing = [names[number] for number in needed if number not in own]
    if missing:
        raise context.fault("incomplete registers", ", ".join(missing))
    for xcc, other in enumerate(state.sh[1:], 1):
        for number in needed:
            base = number in (SCRATCH_BASE_LO, SCRATCH_BASE_HI)
            if not base and other.get(number) != own[number]:
                context.find("XCCs differ", f"{names[number]} on XCC {xcc}")
    return own


def _geometry(
    state: State, sh: dict[int, int], dims: tuple[int, int, int], initiator: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]:
    """(groups, workgroup, work-items of the grid or None when no group is partial)."""
    context = state.context
    whole = tuple(bits(sh[NUM_THREAD_X + axis], 15, 0) for axis in range(3))
    if not all(whole):
        raise context.fault("invalid dispatch", f"a workgroup of {whole}")
    starts = [sh.get(START_X + axis, 0) for axis in range(3)]
    if any(starts) and not initiator >> _FORCE_START & 1:
        raise context.fault("unsupported", f"a dispatch that starts at {starts}")
    items: tuple[int, ...] | None = None
    groups: tuple[int, ...] = dims
    if initiator >> _THREADS & 1:
        groups = tuple(-(-dim // size) for dim, size in zip(dims, whole, strict=True))
        if any(dim % size for dim, size in zip(dims, whole, strict=True)):
            items = dims
            if not initiator >> _PARTIAL_TG & 1:
                raise context.fault("invalid dispatch", "partial workgroups need PARTIAL_TG_EN")
    elif initiator >> _PARTIAL_TG & 1:
        last = [bits(sh[NUM_THREAD_X + axis], 31, 16) for axis in range(3)]
        items = tuple(
            (n - 1) * size + (part or size)
            for n, size, part in zip(dims, whole, last, strict=True)
        )  # fmt: skip
    return groups, whole, items


def _user_data(sh: dict[int, int]) -> tuple[int, ...]:
    """The user registers up to the first that was never set: compilers ask for spare ones."""
    last = USER_DATA_0 + user_sgprs(sh[PGM_RSRC2])
    values: list[int] = []
    for number in range(USER_DATA_0, last):
        if number not in sh:
            break
        values.append(sh[number])
    return tuple(values)


def _scratch(state: State, sh: dict[int, int]) -> tuple[int, int, int]:
    """(base, bytes of a wave, waves) of scratch, zeros when the kernel has none."""
    if not scratch_enabled(sh[PGM_RSRC2]):
        return 0, 0, 0
    chip = state.context.host.chip
    wave_bytes, waves = scratch_of(chip, sh[TMPRING_SIZE])
    if finds_own_scratch(chip):
        # src: LLVM AMDGPUUsage: s[0:3] is the private segment buffer, its base in 48 bits.
        base = join(sh[USER_DATA_0], bits(sh[USER_DATA_0 + 1], 15, 0))
        return base, wave_bytes, waves
    bases = [
        join(own.get(SCRATCH_BASE_LO, 0), bits(own.get(SCRATCH_BASE_HI, 0), 7, 0)) << _CODE_SHIFT
        for own in state.sh
    ]
    each = wave_bytes * waves
    for xcc, base in enumerate(bases[1:], 1):
        if any(abs(base - other) < each for other in bases[:xcc]):
            state.context.find("scratch overlaps", f"XCC {xcc} at {base:#x}")
    return bases[0], wave_bytes, waves


def _dispatch(state: State, dims: tuple[int, int, int], initiator: int) -> None:
    context, chip = state.context, state.context.host.chip
    if not initiator >> _SHADER_EN & 1:
        raise context.fault("reserved value", "COMPUTE_SHADER_EN is not set")
    sh = _registers(state)
    if sh[PGM_HI] >> _ADDRESS_HIGH_BITS:
        raise context.fault("reserved bits", f"COMPUTE_PGM_HI {sh[PGM_HI]:#x}")
    groups, workgroup, items = _geometry(state, sh, dims, initiator)
    scratch_va, wave_bytes, waves = _scratch(state, sh)
    wave32 = initiator >> _WAVE32 & 1 and chip.family != "gfx9"
    launch(
        context,
        Dispatch(
            entry=join(sh[PGM_LO], sh[PGM_HI]) << _CODE_SHIFT,
            groups=(groups[0], groups[1], groups[2]),
            workgroup=(workgroup[0], workgroup[1], workgroup[2]),
            rsrc1=sh[PGM_RSRC1], rsrc2=sh[PGM_RSRC2], rsrc3=sh[PGM_RSRC3[chip.family]],
            user_sgprs=_user_data(sh),
            lanes=32 if wave32 else 64, lds_bytes=lds_bytes(sh[PGM_RSRC2]),
            scratch_va=scratch_va, scratch_wave_bytes=wave_bytes, scratch_waves=waves,
            items=(items[0], items[1], items[2]) if items else None,
            shared_base=context.host.shared_base, private_base=context.host.private_base,
            max_steps=context.max_steps,
        ),
    )  # fmt: skip
