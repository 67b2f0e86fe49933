"""The reader of tables of what kernels do (boards/machine/behaviour.py)."""

from __future__ import annotations

import pytest

from boards.machine.behaviour import parse
from tests.support import check

TABLE = """\
# a note
interface: XYZ
releases: 1 2 3

call | all | a.c f
    A request.
call.flags & 0x3 | .. 2 | a.c f | few
    Two bits.
call.flags & 0x7 | 3 | a.c f | limit=0x10
    Three bits,
    and a second line.
call.kind = 1 0x20 | 2 .. | a.c g | limit=5
    Two values.
"""


def test_entries() -> None:
    table = parse(TABLE)
    check((table.interface, table.releases, len(table.entries)) == ("XYZ", ("1", "2", "3"), 4))
    third = table.entries[2]
    check((third.request, third.field, third.bits) == ("call", "flags", 7))
    check((third.releases, third.text) == (("3",), "Three bits, and a second line."))
    check(table.entries[3].values == (1, 0x20) and table.entries[3].releases == ("2", "3"))


def test_rules_of_a_release() -> None:
    table = parse(TABLE)
    check("few" in table.rules("2") and "few" not in table.rules("3"))
    check([table.rules(one).number("limit") for one in ("2", "3")] == [5, 5])
    with pytest.raises(KeyError):
        table.rules("1").number("few")
    with pytest.raises(ValueError, match="no XYZ of kernel '4': there are 1, 2, 3"):
        table.rules("4")


@pytest.mark.parametrize(
    ("field", "value", "release", "covered"),
    [
        ("", 0, "1", True), ("flags", 3, "1", True), ("flags", 4, "2", False),
        ("flags", 7, "3", True), ("kind", 0x20, "2", True), ("kind", 2, "2", False),
        ("kind", 1, "1", False), ("other", 0, "1", False),
    ],
)  # fmt: skip
def test_what_is_covered(field: str, value: int, release: str, covered: bool) -> None:
    check(parse(TABLE).covers("call", field, value, release) == covered)


@pytest.mark.parametrize(
    "text",
    ["releases: 1\ncall | all\n  text\n", "releases: 1\ncall | all | a.c f\n",
     "releases: 1\ncall | 2 | a.c f\n  text\n", "releases: 1\ncall & x | all | a.c f\n  text\n"],
)  # fmt: skip
def test_tables_that_are_wrong(text: str) -> None:
    with pytest.raises(ValueError, match=r"what is sent|not in|invalid literal"):
        parse(text)
