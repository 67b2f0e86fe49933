"""tests/requirements.txt: every package of the extra dev with versions and hashes."""

from __future__ import annotations

import re

from packaging.requirements import Requirement

from tests import locked
from tests.support import check

LINE = re.compile(
    r"^([\w.-]+)==(\S+?)(?: ; (.+?))?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)


def versions(python: str) -> dict[str, str]:
    """What is installed for a Python: name -> version."""
    found: dict[str, str] = {}
    for name, version, marker, _ in LINE.findall(locked.PLACE.read_text()):
        if not marker or f"'{python}'" in marker:
            check(name not in found, f"{name} twice for {python}")
            found[name] = version
    return found


def test_every_line_has_hashes() -> None:
    text = locked.PLACE.read_text().removeprefix(locked.HEAD)
    check(LINE.sub("", text).strip() == "", LINE.sub("", text).strip()[:200])
    check("://" not in text, "no address of an index")


def test_each_python_has_what_the_project_wants() -> None:
    for python in locked.PYTHONS:
        there = versions(python)
        check(len(there) > 30, f"{python}: {len(there)}")
        for line in locked.wanted():
            asked = Requirement(line)
            if asked.marker is not None and not asked.marker.evaluate({"python_version": python}):
                continue
            version = there.get(locked.normal(asked.name), "")
            check(bool(version) and version in asked.specifier, f"{python}: {line}: {version!r}")


def test_the_page_is_what_its_program_makes() -> None:
    same = {one: {f"{one}-hash"} for one in locked.PYTHONS}
    shown = locked.page({("b", "2"): same, ("a", "1"): {"3.12": {"x"}}})
    lines = shown.removeprefix(locked.HEAD).strip().splitlines()
    check(lines[0] == "a==1 ; python_version == '3.12' \\", lines[0])
    check(lines[1] == "    --hash=sha256:x" and lines[2] == "b==2 \\", str(lines))
    check(len(lines) == 7 and lines[-1] == "    --hash=sha256:3.14-hash", str(lines))
