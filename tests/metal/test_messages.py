"""Every message of the driver against Apple's own headers, as `generators/metal_messages.py` reads
them: that there is such a message, and how its arguments and its result are passed."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, Final

import pytest

from drivers.base.errors import BadArgument
from drivers.metal import abi, api
from drivers.world import libraries
from generators.metal_messages import Header, table
from generators.source import Unreadable
from generators.wanted import wanted
from tests.metal.made_up import MadeUpMac, runtime
from tests.support import check

ROOT: Final = Path(__file__).parents[2]
FACTS: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("messages.json").read_text())
PASSED: Final = {
    "void": "void", "bool": "uint8_t", "f64": "double", "u64": "uint64_t", "i64": "int64_t",
    "id": "uint64_t", "pointer": "uint64_t", "size": "words3", "range": "words2",
}  # fmt: skip


def _sent() -> set[tuple[str, int | None]]:
    """(selector, arguments) of every message that a module of the driver sends by name; None where
    the call is made later."""
    found: set[tuple[str, int | None]] = set()
    for path in sorted((ROOT / "drivers/metal").glob("*.py")):
        tree = ast.parse(path.read_text())
        called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Subscript) or not ast.unparse(node.value).endswith("send"):
                continue
            if isinstance(node.slice, ast.Constant):
                call = called.get(id(node))
                count = None if call is None else len(call.args) - 1
                found.add((str(node.slice.value), count))
    return found


@pytest.mark.parametrize("selector", sorted(abi.MESSAGES))
def test_a_message_is_what_the_header_says(selector: str) -> None:
    message = abi.MESSAGES[selector]
    check(selector.count(":") == len(message.args), "one colon for each argument")
    for owner in message.classes:
        row = FACTS["messages"][owner][selector]
        kinds = [kind for kind, _ in row["arguments"]]
        check((message.returns, list(message.args)) == (row["returns"][0], kinds), f"{row}")
    for kind in (message.returns, *message.args):
        check(abi.TYPES[kind] == PASSED[kind], f"{kind} is passed as {abi.TYPES[kind]}")


def test_constants_are_the_header_s() -> None:
    for name, value in abi.CONSTANTS.items():
        check(FACTS["constants"][name.partition("::")[2]] == value, f"{name} {value}")


def test_the_driver_sends_what_the_table_has_and_nothing_else() -> None:
    sent = _sent()
    named = {selector for selector, _ in sent}
    kinds = {ring for ring in abi.MESSAGES if ring.endswith("CommandEncoder")}  # ring.encoder
    memory = {"maxThreadgroupMemoryLength", "recommendedMaxWorkingSetSize"}  # facts, by a loop
    missing = named - set(abi.MESSAGES)
    check(not missing, f"not in the table: {missing}")
    unused = set(abi.MESSAGES) - named - kinds - memory
    check(not unused, f"never sent: {unused}")
    for selector, count in sent:
        wanted_count = len(abi.MESSAGES[selector].args)
        check(count in (None, wanted_count), f"{selector} with {count} arguments")


def test_the_list_of_the_generator_is_the_driver_s() -> None:
    keep = wanted("metal_messages")
    for selector, message in abi.MESSAGES.items():
        check(all(keep(f"{owner}.{selector}") for owner in message.classes), selector)
    found = {
        f"{owner}.{selector}" for owner, rows in FACTS["messages"].items() for selector in rows
    }
    used = {f"{o}.{s}" for s, message in abi.MESSAGES.items() for o in message.classes}
    check(found == used, f"{found ^ used}")


def test_signatures_give_structs_and_doubles_by_value() -> None:
    runtime()
    made = api.Api(MadeUpMac())
    spelled = {
        (message.returns, *message.args): selector for selector, message in abi.MESSAGES.items()
    }
    check(("void", "size", "size") in spelled and ("f64",) in spelled, "24 bytes, and a double")
    check(set(made.send) == set(abi.MESSAGES), "a function for each")


@pytest.mark.parametrize("signature", ["words9(*)(int)", "int(*)(words0)", "words3", "int(words2)"])
def test_signatures_that_cannot_be_read(signature: str) -> None:
    with pytest.raises(BadArgument):
        libraries.load(runtime().path).function(abi.SEND, signature)


def test_the_generator_refuses_what_it_cannot_read() -> None:
    with pytest.raises(Unreadable):
        table("int x;", "metal_messages")
    with pytest.raises(Unreadable):
        Header("").kind("float3x4")


def test_the_generator_reads_results_and_arguments() -> None:
    text = (
        '_MTL_PRIVATE_DEF_SEL(go_to_,\n    "go:to:");\n'
        "_MTL_ENUM(NS::UInteger, Pace) {\n    PaceSlow = 3,\n};\n"
        "_MTL_INLINE double MTL::Car::go(MTL::Pace pace, const class Road* road)\n{\n"
        "    return Object::sendMessage<double>(this, _MTL_PRIVATE_SEL(go_to_), pace, road);\n}\n"
    )
    header = Header(text)
    row = header.messages()["MTLCar", "go:to:"]
    check(row["returns"] == ["f64", "double"], f"{row}")
    check(row["arguments"] == [["u64", "MTL::Pace"], ["id", "Road*"]], f"{row}")
    check(header.constants() == {"PaceSlow": 3}, "its enumerators")
