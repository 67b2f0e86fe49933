"""Lists of what an outside client is known to do: who fits, what is new, what nobody does."""

from pathlib import Path

import pytest

from boards.machine.chassis import Violation
from tests.support import check
from tests.witness.known_violations import load

LIST = """
[[violation]]
kind = "HDP flush under way"
what = "queue * of *: no register"
chips = ["gfx942"]
reason = "known"
source = "a file"

[[violation]]
kind = "unreleased"
what = "queue 1"
reason = "known"
source = "a file"
"""
FLUSH = Violation("HDP flush under way", "queue 3 of SDMA0: no register", "detail")
UNRELEASED = Violation("unreleased", "queue 1")
OTHER = Violation("unreleased", "queue 12")


def test_kind_place_and_chip_have_to_fit(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(LIST)
    known = load(tmp_path / "list.toml")
    check(known.new([FLUSH, UNRELEASED, OTHER], "gfx942") == [OTHER], "another queue")
    check(known.new([FLUSH, UNRELEASED], "gfx1100") == [FLUSH], "another chip")


def test_what_no_run_has_shown_is_stale(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(LIST)
    known = load(tmp_path / "list.toml")
    check([one.kind for one in known.stale(["gfx1100"])] == ["unreleased"], "not of this chip")
    known.new([UNRELEASED], "gfx1100")
    check([one.kind for one in known.stale(["gfx1100", "gfx942"])] == ["HDP flush under way"])


@pytest.mark.parametrize("line", ['reason = "known"', 'source = "a file"', 'kind = "unreleased"'])
def test_an_entry_needs_reason_and_source(tmp_path: Path, line: str) -> None:
    (tmp_path / "list.toml").write_text(LIST.replace(line, ""))
    with pytest.raises(TypeError):
        load(tmp_path / "list.toml")
