"""The journal of a served GPU: what was touched and is not modelled, what a guest waits for."""

from __future__ import annotations

import io

from boards.vfio_user.journal import SPIN, Journal
from tests.boards.bare_function import Bare
from tests.support import check

NOWHERE_DW = 0x1_66FF
"""In the thermal block, of which the board has no registers."""


def test_it_names_registers_and_lists_what_is_not_modelled() -> None:
    out = io.StringIO()
    journal, bare = Journal(out), Bare("gfx1100")
    bare.gpu.observe(journal)
    bare.gpu.board.registers.write(NOWHERE_DW, 5)
    bare.gpu.board.registers.read(NOWHERE_DW)
    bare.write("GC", "SCRATCH_REG0", 0xCAFE)
    journal.close()
    check("write GC[0].SCRATCH_REG0 0xcafe\n" in out.getvalue(), out.getvalue())
    wanted = f"not modelled: dword {NOWHERE_DW:#x}: 1 reads (answered 0), 1 writes, last 0x0"
    check(journal.report() == [wanted], f"{journal.report()}")
    check(bare.gpu.violations == [], f"{bare.gpu.violations}")


def test_without_a_journal_it_is_a_violation() -> None:
    bare = Bare("gfx1100")
    bare.gpu.board.registers.read(NOWHERE_DW)
    check([v.kind for v in bare.gpu.violations] == ["unknown register"], "one violation")


def test_a_register_that_is_read_again_and_again_is_named() -> None:
    journal = Journal()
    for _ in range(SPIN):
        journal.access("read", "MP0[0].MP0_SMN_C2PMSG_81", 0)
    check(
        journal.report() == [f"waited for: MP0[0].MP0_SMN_C2PMSG_81: {SPIN} equal reads in a row"]
    )
