"""Arithmetic over named values, as a lab's check.yaml writes it: `8 * window_kib * 1024 / rtt_ms`.

Numbers, words in quotes, names, + - * / **, comparisons, and/or/not, `a if b else c`, FUNCTIONS;
nothing else, so that a file of a lab can compute and not act.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from gostlab.tcpmodel import response

Value = float | int | str | bool
MAX_EXPONENT = 64
ETHERNET_FRAME_BYTES = 1514  # a full packet as a queue counts it
BYTES_OF_HEADERS = 66  # of those: Ethernet, IPv4, TCP with its time stamps


class FormulaError(ValueError):
    """A formula cannot be read or has no value; the message says why."""


def bdp_pkts(rate_mbit: float, rtt_ms: float) -> float:
    """The full packets that are in flight when the path is full and its queues are empty."""
    return response.bdp_bytes(rate_mbit * 1e6, rtt_ms / 1000) / ETHERNET_FRAME_BYTES


def payload_mbit(rate_mbit: float) -> float:
    """What a full link carries of TCP payload, Mbit/s."""
    return rate_mbit * (1 - BYTES_OF_HEADERS / ETHERNET_FRAME_BYTES)


def window_mbit(window_bytes: float, rtt_ms: float) -> float:
    """A window per round trip, Mbit/s (RFC 7323, section 1.1)."""
    return response.window_limit_bps(window_bytes, rtt_ms / 1000) / 1e6


def queue_ms(packets: float, rate_mbit: float) -> float:
    """How long so many full packets take to leave at a rate, ms."""
    return packets * ETHERNET_FRAME_BYTES * 8 / (rate_mbit * 1000)


def cubic_window(loss: float, rtt_ms: float) -> float:
    """CUBIC's mean window under one loss every 1/loss packets (RFC 9438, section 5.1)."""
    return response.cubic_window(loss, rtt_ms / 1000)


def cubic_leaves_reno(rtt_ms: float) -> float:
    """The loss below which CUBIC's own window is larger than Reno's: RFC 9438's two, equated."""
    constant = response.CUBIC_FACTOR
    return float((constant * (rtt_ms / 1000) ** 0.75 / math.sqrt(1.5)) ** 4)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "log": math.log,
    "sqrt": math.sqrt,
    "bdp_pkts": bdp_pkts,
    "payload_mbit": payload_mbit,
    "window_mbit": window_mbit,
    "queue_ms": queue_ms,
    "reno_window": response.reno_window,
    "cubic_window": cubic_window,
    "cubic_leaves_reno": cubic_leaves_reno,
}
TWO_SIDED: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(text: str, names: Mapping[str, Value]) -> Value:
    """A formula's value. Raises FormulaError, also for what is no finite number."""
    try:
        value = value_of(parsed(text), names)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise (
            error if isinstance(error, FormulaError) else FormulaError(f"{text}: {error}")
        ) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise FormulaError(f"{text}: no finite number")
    return value


@lru_cache(maxsize=1000)
def parsed(text: str) -> ast.expr:
    """A formula's tree. Raises FormulaError."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"{text}: not a formula") from None


def names_in(text: str) -> set[str]:
    """The names that a formula reads, its functions aside. Raises FormulaError."""
    read = {node.id for node in ast.walk(parsed(text)) if isinstance(node, ast.Name)}
    return read - set(FUNCTIONS)


def value_of(node: ast.expr, names: Mapping[str, Value]) -> Any:
    """A tree's value. Raises FormulaError, and what arithmetic raises."""
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float | str):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise FormulaError(f"{name}: there is no such value")
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -value_of(inner, names)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not value_of(inner, names)
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            exponent = value_of(right, names)
            if abs(exponent) > MAX_EXPONENT:
                raise FormulaError(f"an exponent of {exponent}")
            return float(value_of(left, names)) ** exponent
        case ast.BinOp(op=op, left=left, right=right) if type(op) in TWO_SIDED:
            return TWO_SIDED[type(op)](value_of(left, names), value_of(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in TWO_SIDED:
            return TWO_SIDED[type(op)](value_of(left, names), value_of(right, names))
        case ast.BoolOp(op=op, values=values):
            found = [bool(value_of(each, names)) for each in values]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.IfExp(test=test, body=body, orelse=other):
            return value_of(body if value_of(test, names) else other, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(value_of(each, names) for each in args))
    raise FormulaError(f"{ast.unparse(node)}: nothing that a formula may have")


FORMULA_IN_TEXT = re.compile(r"<([^<>]+)>")


def filled(
    text: str, names: Mapping[str, Value], show: Callable[[Value], str] | None = None
) -> str:
    """A text in which every <formula> stands for its value: `<2 * rtt_ms>ms`. Raises
    FormulaError. show: how a value is written (default: `shown`).
    """
    write = show or shown
    return FORMULA_IN_TEXT.sub(lambda found: write(evaluate(found[1], names)), text)


def rounded(value: Value) -> str:
    """A value as a sentence has it: a fraction to three digits."""
    whole = isinstance(value, float) and abs(value) < 1000
    return shown(float(f"{value:.3g}") if whole else value)


def shown(value: Value) -> str:
    """A value as a setting has it: a whole number without a point, others to six digits."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return str(value)
