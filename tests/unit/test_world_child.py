"""A vendor's library is asked in a child: what ends, holds or floods that ends nothing here."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from drivers.base.answers import Answers
from drivers.base.deadline import polls
from drivers.base.errors import DeviceError, MalformedInput, NotFound
from drivers.world import child
from drivers.world.linux import LinuxWorld
from tests.share import part
from tests.support import check

SHORT_S = 2.0
ENOUGH_S = 10.0
SURVEY = "tests.surveys:survey"


def ask(*names: str, patience_s: float | None = None) -> Answers:
    return child.ask(SURVEY, {"names": names}, patience_s=patience_s)


def found(answers: Answers) -> list[str]:
    return [one["name"] for one in answers.facts]


def descriptors() -> Sequence[str]:
    return os.listdir("/proc/self/fd")


def test_each_death_is_named_and_the_others_answer() -> None:
    before = len(descriptors())
    answers = ask("first", "abort", "second", "exit", "crash", "last")
    check(found(answers) == ["first", "second", "last"], str(answers))
    lost = [str(one) for one in answers.lost]
    check(lost == [
        "abort ended the process that loaded it (SIGABRT)",
        "exit ended the process that loaded it (exit status 3)",
        "crash ended the process that loaded it (SIGSEGV)",
    ], str(lost))  # fmt: skip
    check(answers.facts[-1]["lost"] == "abort exit crash", str(answers.facts))
    check(len(descriptors()) == before, "no pipe is left")


def test_who_does_not_answer_is_killed_with_its_session() -> None:
    answers = ask("first", "hang", "last", patience_s=SHORT_S)
    check(found(answers) == ["first", "last"], str(answers))
    check([str(one) for one in answers.lost] == [
        "hang did not answer in 2 s when it was loaded"
    ], str(answers.lost))  # fmt: skip


def test_one_that_leaves_an_heir_is_not_waited_for_beyond_its_time() -> None:
    answers = ask("heir", "last", patience_s=SHORT_S)
    check(found(answers) == ["last"] and len(answers.lost) == 1, str(answers))
    heir = answers.noise.split()[1]
    gone = any(state(heir) in ("", "Z", "X") for _ in polls(ENOUGH_S, LinuxWorld()))
    check(gone, f"process {heir} is killed with the session of its parent")


def state(number: str) -> str:
    """Of a process: "R", "S", "Z"; "" without one. # src: proc_pid_stat(5)"""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][:1]
    except FileNotFoundError:
        return ""


def test_what_a_library_prints_is_kept_and_is_no_answer() -> None:
    answers = ask("print", "flood", "last")
    check(found(answers) == ["print", "flood", "last"] and not answers.lost, str(answers.lost))
    check(answers.noise.startswith('{"fact": {"name": "printed"}}\nWarning: noise\nxxx'))
    check(len(answers.noise) == child.MOST_NOISE_CHARS, f"{len(answers.noise)} characters")


def test_errors_of_ours_come_through() -> None:
    with pytest.raises(DeviceError, match=r"nothing is given\. ask again"):
        ask("ours")
    answers = child.ask("tests.surveys:wrong", {})
    check([str(one) for one in answers.lost] == [
        "first ended the process that loaded it (exit status 1: KeyError: 'a mistake')"
    ], str(answers.lost))  # fmt: skip
    check("KeyError: 'a mistake'" in answers.noise, answers.noise)
    with pytest.raises(MalformedInput, match="more than"):
        child.ask("tests.surveys:long", {})


def test_an_interpreter_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("/nonexistent/python", ""):
        monkeypatch.setattr(sys, "executable", wrong)
        with pytest.raises(NotFound, match="cannot be started again"):
            ask("first")


@pytest.mark.parametrize(
    "line",
    [
        b"banana",
        b"[]",
        b"{}",
        b'{"begun": {"x": 1}}',
        b"\xff",
        b"1",
        b'{"fact": 1}',
        b'{"fact": {"a": 1}}',
        b'{"fact": {"x_bytes": "1"}}',
        b'{"fact": ["ab"]}',
        b"[" * 100_000,
        b'{"begun": {"name": "x", "patience_s": NaN}}',
        b'{"begun": {"name": "x", "patience_s": "y"}}',
        b'{"begun": {"name": "x", "patience_s": 1e300}}',
    ],
)
def test_a_line_that_is_no_answer(line: bytes) -> None:
    talk = child._Conversation(Answers(), None)
    with pytest.raises(MalformedInput, match="is not an answer"):
        talk._answer(line + b"\n")


def test_mutated_answers_are_refused_or_texts() -> None:
    good = json.dumps({"begun": {"name": "x", "deed": "loaded", "patience_s": 1.0}}).encode()
    lines = [good, b'{"fact": {"title": "a", "memory_bytes": 7}}', b'{"done": true}',
             b'{"failed": "no", "hint": "do"}']  # fmt: skip
    rng, refused = random.Random(6), 0
    for _ in range(part(20_000, 2_000)):
        line = bytearray(rng.choice(lines))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(line))
            line[at : at + rng.randrange(3)] = rng.choice(
                [b"", b'"', b"1", b"{}", b"null", b"\xff"]
            )
        answers = Answers()
        try:
            child._Conversation(answers, None)._answer(bytes(line).replace(b"\n", b"") + b"\n")
        except DeviceError:
            refused += 1
        for fact in answers.facts:
            for name, value in fact.items():
                check(isinstance(value, int if name.endswith("_bytes") else str), str(fact))
    check(refused > 1_000, f"{refused} refused")
