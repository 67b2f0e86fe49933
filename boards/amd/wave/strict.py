"""What silicon lets pass: early reads of loads, reads of nothing, races. Reported, not faulted."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from boards.amd.isa.decode import Dpp, Family, Instruction
from boards.amd.isa.layout import all_ones
from boards.amd.isa.text import disassemble
from boards.amd.wave.dpp import written_lanes
from boards.amd.wave.lanes import dpp_sources
from boards.amd.wave.races import DWORD, Races, Stored
from boards.amd.wave.state import SGPRS, Waves
from boards.amd.wave.touch import Touch
from boards.amd.wave.types import Report, Strict, Violation
from boards.machine.arrays import Array, Words

_NEVER, _MANY = -1, 1 << 31
_PARTS = {0: ("v", "vl", "vh"), 1: ("v", "vl"), 2: ("v", "vh")}
"""What is on its way to a vector register or its halves and meets an access of all, or a half."""
_PART = {0: "v", 1: "vl", 2: "vh"}


def _most(family: Family) -> dict[str, int]:
    """How many operations each counter can count: what its field in a wait holds."""
    names = {name for group in family.counters.values() for name in group}
    fields = [pieces for counters in family.waits.values() for pieces in counters.items()]
    return {
        name: max((all_ones(p) for counter, p in fields if counter == name and p), default=_MANY)
        for name in names
    }


class Observer:
    """Follows the definedness and arrival of every register, and who touched which LDS dword."""

    def __init__(self, w: Waves, strict: Strict, report: Report, family: Family) -> None:
        self.strict, self.report, self.family = strict, report, family
        names = {name for group in family.counters.values() for name in group}
        registers = len(w.vgpr)
        self._whole = [False] * registers
        self._defined = np.zeros(
            (registers if strict.uninitialised else 0, w.count, w.lanes), np.bool_
        )
        self._scalar_defined = np.zeros((SGPRS, w.count), np.bool_)
        self._issued = {c: np.zeros(w.count, np.int64) for c in names}
        self._done = {c: np.zeros(w.count, np.int64) for c in names}
        self._unordered = {c: np.zeros(w.count, np.int64) for c in names}
        self._most = _most(family)
        self._lds_tickets: dict[str, Array] = {}
        """Counter -> the latest access to LDS of each wave that no barrier orders by itself."""
        self._pending: dict[tuple[str, int], dict[str, Array]] = {}
        self._pending_vector: set[int] = set()
        self._pending_scalar: set[int] = set()
        self._seen: set[tuple[str, int, str]] = set()
        self.races = Races(w)

    def define(self, vector: tuple[int, ...], scalar: tuple[int, ...]) -> None:
        """Registers that the launch itself fills."""
        for register in vector:
            self._whole[register] = True
        self._scalar_defined[list(scalar)] = True

    def before(self, w: Waves, inst: Instruction, t: Touch) -> None:
        """Check what an instruction is about to read and overwrite."""
        if self._pending and self.strict.wait_counts:
            for register in t.vector & self._pending_vector:
                for kind in _PARTS[t.part[1] if register == t.part[0] else 0]:
                    if (kind, register) in self._pending and not self._follows(
                        w, t, kind, register
                    ):
                        self._check_arrival(w, inst, kind, register)
            for register in t.scalar & self._pending_scalar:
                self._check_arrival(w, inst, "s", register)
        if self.strict.uninitialised:
            if t.halves:
                self._check_halves(w, inst, t)
            for register in () if t.halves else t.vector_reads:
                if not self._whole[register] and not t.any_lane:
                    self._check_vector(w, inst, register)
            if inst.dpp is not None and inst.dpp.fetch_inactive:
                self._check_permuted(w, inst, inst.dpp, t.vector_reads[0])
            for register in t.scalar_reads:
                defined = self._scalar_defined[register][w.sel]
                if not defined.all():
                    wave = int(w.waves[int(np.argmin(defined))])
                    self._found("uninitialised", inst, f"s{register}", w.first_wave + wave)

    def _follows(self, w: Waves, t: Touch, kind: str, register: int) -> bool:
        """Whether a load only writes after an earlier load of the same kind: those keep order.

        Only what the selected waves wait for counts: others may be in another branch.
        """
        ordered = t.counter in ("vm", "lgkm")
        if not ordered or register in t.vector_reads:
            return False
        pending = self._pending[kind, register].items()
        late = {c for c, ticket in pending if (ticket[w.sel] > self._done[c][w.sel]).any()}
        return late <= set(self.family.counters[t.counter])

    def after(self, w: Waves, t: Touch, mask: Array | None) -> None:
        """Record what an instruction wrote and what is still on its way."""
        if self.strict.uninitialised:
            if t.halves:
                self._define_halves(w, t, mask)
            for register in () if t.halves else t.vector_writes:
                if self._whole[register]:
                    continue
                if t.any_lane or (mask is None and w.n == w.count):
                    self._whole[register] = True
                elif mask is None:
                    self._defined[register][w.sel] = True
                else:
                    self._defined[register][w.sel] |= mask
            known = self._scalar_defined
            above = None
            if t.upper and t.upper[1]:
                above = np.logical_and.reduce([known[register][w.sel] for register in t.upper[1]])
            for register in t.scalar_writes:
                known[register][w.sel] = True
            if t.upper and above is not None:
                known[t.upper[0]][w.sel] = above
        if t.counter and self.strict.wait_counts:
            self._issue(w, t)

    def far_read(self, w: Waves, inst: Instruction, registers: Array) -> None:
        """Vector registers that each selected wave (n,) reads through M0."""
        if not self.strict.uninitialised:
            return
        for register in np.unique(registers):
            if not self._whole[register]:
                rows = registers == register
                missing = ~self._defined[register][w.waves] & w.active & rows[:, None]
                self._report_missing(w, inst, int(register), missing)

    def far_write(self, w: Waves, registers: Array) -> None:
        """Vector registers that each selected wave (n,) wrote through M0."""
        if self.strict.uninitialised:
            self._defined[registers, w.waves] |= w.active

    def far_scalar_write(self, w: Waves, registers: Array) -> None:
        """Scalar registers that each selected wave (n,) wrote through M0."""
        self._scalar_defined[registers, w.waves] = True

    def _known(self, w: Waves, registers: Set[int]) -> Array:
        """Where all of these vector registers are defined, of the selected waves (n, lanes)."""
        known = np.ones((w.n, w.lanes), np.bool_)
        for register in registers:
            if not self._whole[register]:
                known &= self._defined[register][w.sel]
        return known

    def _check_halves(self, w: Waves, inst: Instruction, t: Touch) -> None:
        """At least one half of a packed operation has to mean something."""
        nothing = ~np.logical_or.reduce([self._known(w, parts) for _, parts in t.halves]) & w.active
        if nothing.any():
            for register in sorted(t.halves[0][1]):
                self._report_missing(w, inst, register, nothing & ~self._known(w, {register}))

    def _define_halves(self, w: Waves, t: Touch, mask: Array | None) -> None:
        """Each half of the result is as undefined as what it was made of."""
        known = [(register, self._known(w, parts)) for register, parts in t.halves]
        for register, good in known:
            if mask is None and w.n == w.count and good.all():
                self._whole[register] = True
                continue
            if self._whole[register]:
                self._whole[register], self._defined[register] = False, True
            before = self._defined[register][w.sel]
            self._defined[register][w.sel] = good if mask is None else np.where(mask, good, before)

    def _check_vector(self, w: Waves, inst: Instruction, register: int) -> None:
        missing = ~self._defined[register][w.sel]
        mask = w.mask
        if mask is not None:
            missing = missing & mask
        self._report_missing(w, inst, register, missing)

    def _check_permuted(self, w: Waves, inst: Instruction, dpp: Dpp, register: int) -> None:
        """Source 0 of DPP in the lanes it is read from, which may be off."""
        index, inside = dpp_sources(dpp, w.lanes)
        missing = ~self._defined[register][w.sel][:, index] & inside & written_lanes(w, dpp)
        self._report_missing(w, inst, register, missing)

    def _report_missing(self, w: Waves, inst: Instruction, register: int, missing: Array) -> None:
        if missing.any():
            row, lane = (int(x) for x in np.argwhere(missing)[0])
            wave = w.first_wave + int(w.waves[row])
            self._found("uninitialised", inst, f"v{register}", wave, lane)

    def _issue(self, w: Waves, t: Touch) -> None:
        for counter in self.family.counters[t.counter]:
            self._issued[counter][w.sel] += 1
            ticket = self._issued[counter]
            self._stall(w, counter)
            if t.counter in self.family.unordered:
                self._unordered[counter][w.sel] = ticket[w.sel]
            self._pending_vector.update(t.vector_writes)
            self._pending_scalar.update(t.scalar_writes)
            keys = [(_PART[t.part[1]], register) for register in t.vector_writes]
            for key in (*keys, *(("s", register) for register in t.scalar_writes)):
                tickets = self._pending.setdefault(key, {})
                if counter not in tickets:
                    tickets[counter] = np.full(w.count, _NEVER, np.int64)
                late = self._waves_of(w, t, counter)
                tickets[counter][late] = ticket[late]

    def _stall(self, w: Waves, counter: str) -> None:
        """A counter that is full holds the next operation up until the oldest one is done."""
        # src: llvm SIInsertWaitcnts.cpp, getWaitCountMax: no wait for what so many others follow.
        done = self._done[counter]
        oldest = self._issued[counter][w.sel] - self._most[counter]
        known = self._unordered[counter][w.sel] <= done[w.sel]
        done[w.sel] = np.maximum(done[w.sel], np.where(known, oldest, done[w.sel]))

    def _waves_of(self, w: Waves, t: Touch, counter: str) -> Array:
        """The selected waves whose result comes with `counter`: of a FLAT load, LDS's or not."""
        reached = w.reached_lds
        if t.counter != "flat" or reached is None or counter not in self.family.counters["lgkm"]:
            return w.waves
        return w.waves[reached]

    def wait(self, w: Waves, counter: str, count: int) -> None:
        """At most `count` operations of a counter are left."""
        if counter not in self._issued:
            return
        issued, done = self._issued[counter][w.sel], self._done[counter]
        reached = issued - count
        if count:
            # src: RDNA3 ISA 5.5: scalar loads return out of order, so only 0 says anything.
            reached = np.where(self._unordered[counter][w.sel] > done[w.sel], done[w.sel], reached)
        done[w.sel] = np.maximum(done[w.sel], reached)
        for key in list(self._pending):
            tickets = self._pending[key]
            if all((ticket <= self._done[c]).all() for c, ticket in tickets.items()):
                del self._pending[key]
                if key[0] == "s":
                    self._pending_scalar.discard(key[1])
                elif not any((kind, key[1]) in self._pending for kind in _PARTS[0]):
                    self._pending_vector.discard(key[1])

    def _check_arrival(self, w: Waves, inst: Instruction, kind: str, register: int) -> None:
        for counter, ticket in self._pending[kind, register].items():
            late = ticket[w.sel] > self._done[counter][w.sel]
            if late.any():
                wave = w.first_wave + int(w.waves[int(np.argmax(late))])
                what = f"{kind[0]}{register} before {counter}cnt"
                self._found("wait count", inst, what, wave)

    def _found(self, kind: str, inst: Instruction, what: str, wave: int, lane: int = 0) -> None:
        key = (kind, inst.pc, what)
        if key not in self._seen:
            self._seen.add(key)
            violation = Violation(kind, inst.pc, disassemble(inst), what, wave, lane)
            self.report.violations.append(violation)

    def misaligned(self, w: Waves, inst: Instruction, lost: Array) -> None:
        """Low bits of addresses that hardware drops, for each selected wave (n,)."""
        if lost.any():
            wave = w.first_wave + int(w.waves[int(np.argmax(lost != 0))])
            self._found("misaligned", inst, f"{int(lost.max())} bytes off", wave)

    def signal(self, waves: Array) -> None:
        """Waves arrive at a barrier; FLAT accesses that were not waited for may come after it.

        # src: LLVM SIMemoryLegalizer.cpp, insertWait: LDS instructions of all waves run in an order
        # src: that all waves see, so a barrier orders them without a wait; those that come another
        # src: way do not, and s_barrier waits for no counter of its own (AMDGPUUsage).
        """
        late = np.zeros(len(waves), np.bool_)
        for counter, ticket in self._lds_tickets.items():
            late |= ticket[waves] > self._done[counter][waves]
        self.races.signal(waves, late & self.strict.wait_counts)

    def _issue_lds(self, w: Waves, inst: Instruction) -> None:
        """An access by another way than the DS instructions: FLAT, or a load of memory to LDS."""
        flat = inst.encoding == "FLAT" and not inst.fields["segment"]
        (counter,) = self.family.counters["lgkm" if flat else "vm"]
        ticket = self._lds_tickets.setdefault(counter, np.zeros(w.count, np.int64))
        ticket[w.sel] = self._issued[counter][w.sel] + 1

    def mark_lds(self, w: Waves, at: Array, nbytes: int) -> None:
        """Dwords that an atomic wrote."""
        if self.strict.lds:
            for i in range(max(1, nbytes // 4)):
                self.races.mark((at >> 2) + i)

    def lds(
        self, w: Waves, inst: Instruction, at: Array, index: Array, nbytes: int,
        data: Words | None,
    ) -> None:  # fmt: skip
        """An ordinary access to LDS bytes `at` by lanes at flat positions `index`."""
        if not self.strict.lds:
            return

        def found(kind: str, wave: int) -> None:
            self._found(kind, inst, "LDS", w.first_wave + wave)

        if inst.encoding != "DS":
            self._issue_lds(w, inst)
        shift = at & 3
        part = ((1 << nbytes) - 1 << shift).astype(np.uint8) if nbytes < 4 else DWORD
        for i in range(max(1, nbytes // 4)):
            word = (at >> 2) + i
            if data is None:
                self.races.read(w.waves, word, part, index, found)
                continue
            value = data[i] << (8 * shift).astype(np.uint32) if nbytes < 4 else data[i]
            self.races.write(w.waves, Stored(word, part, value), index, found)
