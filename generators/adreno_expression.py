"""C expressions of Mesa's isaspec files as lists: operator first, field names and numbers."""

from __future__ import annotations

import ast
import re
from typing import Final

from generators.source import Unreadable

GENERATION: Final = "ISA_GPU_ID"
"""What stands for the chip's generation times 100."""
_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.LShift: "<<", ast.RShift: ">>",
    ast.BitOr: "|", ast.BitAnd: "&", ast.Add: "+", ast.Sub: "-", ast.Mult: "*",
}  # fmt: skip


def prefix_form(text: str) -> object:
    """`({A} << 1) | {B}` becomes `["|", ["<<", "A", 1], "B"]`. Raises: Unreadable."""
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    plain = plain.replace("&&", " and ").replace("||", " or ")
    plain = plain.replace(f"{GENERATION}()", GENERATION)
    plain = re.sub(r"!(?!=)", " not ", plain)
    plain = re.sub(r"\{(\w+)\}", r"\1", plain)
    plain = re.sub(r"\b(\d+)U?L*\b", r"\1", plain)
    try:
        return _form(ast.parse(f"({plain})", mode="eval").body, text)
    except SyntaxError as error:
        raise Unreadable(f"{text!r}: no expression") from error


def _form(node: ast.expr, text: str) -> object:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return name
        case ast.BoolOp(op=op, values=values):
            return [_OPERATORS[type(op)], *(_form(value, text) for value in values)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ["not", _form(operand, text)]
        case ast.BinOp(left=left, op=op, right=right):
            return [_OPERATORS[type(op)], _form(left, text), _form(right, text)]
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return [_OPERATORS[type(op)], _form(left, text), _form(right, text)]
    raise Unreadable(f"{text!r}: {ast.dump(node)}")
