"""The journal of a served GPU: what was touched and is not modelled, what a guest waits for."""

from __future__ import annotations

import io
import json

from boards.amd.pci.watched import watch
from boards.compare_trace import read
from boards.vfio_user.journal import SPIN, Journal
from tests.boards.bare_function import Bare
from tests.support import check

NOWHERE_DW = 0x1_66FF
"""In the thermal block, of which the board has no registers."""


def watched(out: io.StringIO | None = None) -> tuple[Journal, Bare]:
    journal, bare = Journal("gfx1100", out), Bare("gfx1100")
    watch(bare.gpu, journal)
    journal.attach(bare.gpu)
    return journal, bare


def test_it_names_registers_and_lists_what_is_not_modelled() -> None:
    out = io.StringIO()
    journal, bare = watched(out)
    bare.gpu.board.registers.write(NOWHERE_DW, 5)
    bare.gpu.board.registers.read(NOWHERE_DW)
    bare.write("GC", "SCRATCH_REG0", 0xCAFE)
    journal.close()
    line = json.dumps({"op": "W", "register": "GC[0].SCRATCH_REG0", "value": 0xCAFE})
    check(line in out.getvalue().splitlines(), out.getvalue())
    wanted = f"not modelled: dword {NOWHERE_DW:#x}: 1 reads (answered 0), 1 writes, last 0x0"
    check(journal.report() == [wanted], f"{journal.report()}")
    check(bare.found() == ["unknown register"] * 2, "a journal hides no violation")


def test_without_a_journal_it_is_a_violation() -> None:
    bare = Bare("gfx1100")
    bare.gpu.board.registers.read(NOWHERE_DW)
    check([v.kind for v in bare.gpu.violations] == ["unknown register"], "one violation")


def test_violations_are_counted_by_who_has_msi_on() -> None:
    """src: PCI Local Bus Specification 3.0 6.8.1.3: bit 0 of message control is MSI enable"""
    journal, bare = Journal("gfx1100"), Bare("gfx1100")
    before: list[str] = []
    bare.gpu.hardware.trace = lambda name, facts: before.append(name)
    watch(bare.gpu, journal)
    journal.attach(bare.gpu)
    at = 0xA0 + 2
    control = int.from_bytes(bare.gpu.config.read(at, 2), "little")
    for session in (0, 1, 1, 0, 2):
        if bool(session) != bare.gpu.config.msi_on:
            bare.gpu.config.write(at, (control | bool(session)).to_bytes(2, "little"))
        bare.gpu.board.registers.read(NOWHERE_DW)
    text = f"unknown register: read of dword {NOWHERE_DW:#x} (0x0)"
    wanted = [f"broken in session {n}: {count} x {text}" for n, count in ((0, 2), (1, 2), (2, 1))]
    check(journal.blame() == [*wanted, "sessions with MSI: 2"], f"{journal.blame()}")
    check(before.count("violation") == 5, f"who listened before hears as before: {before}")


def test_a_register_that_is_read_again_and_again_is_named() -> None:
    journal = Journal("gfx1100")
    for _ in range(SPIN):
        journal.access("read", "MP0[0].MP0_SMN_C2PMSG_81", 0)
    check(
        journal.report() == [f"waited for: MP0[0].MP0_SMN_C2PMSG_81: {SPIN} equal reads in a row"]
    )


def test_it_is_a_trace_in_which_equal_accesses_are_counted() -> None:
    out = io.StringIO()
    journal, bare = watched(out)
    for _ in range(5):
        bare.write("GC", "SCRATCH_REG0", 3)
    bare.write("GC", "SCRATCH_REG0", 4)
    bare.read("GC", "SCRATCH_REG0")
    bare.gpu.board.registers.read(NOWHERE_DW)
    journal.close()
    lines = out.getvalue().splitlines()
    summary = read(lines, "trace")
    check((summary.board, summary.writes) == ("gfx1100", 6), f"{summary}")
    check(summary.last == {"GC[0].SCRATCH_REG0": 4}, f"{summary.last}")
    check(summary.reads == {"GC[0].SCRATCH_REG0": 1}, f"{summary.reads}")
    check(len(lines) < 9, "five equal writes are two lines")


def test_reads_of_a_register_without_a_value_are_listed_apart() -> None:
    journal, bare = watched()
    for _ in range(3):
        bare.read("GC", "GB_ADDR_CONFIG_READ")
    bare.write("GC", "SCRATCH_REG0", 1)
    bare.read("GC", "SCRATCH_REG0")
    lines = ["without a value: GC[0].GB_ADDR_CONFIG_READ: 3 reads (answered 0)"]
    check(journal.report() == lines, f"{journal.report()}")
