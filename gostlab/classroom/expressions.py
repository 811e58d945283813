# SPDX-License-Identifier: MIT
"""Evaluate arithmetic over named values, such as `8 * window_kib * 1024 / rtt_ms`.

A lab's check.yaml may use numbers, quoted words, names, + - * / **, comparisons, and/or/not, `a if
b else c` and FUNCTIONS, and nothing else: a lab file can compute values but execute nothing.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from gostlab.tcpmodel import response_functions

Value = float | int | str | bool
MAX_EXPONENT = 64
ETHERNET_FRAME_BYTES = 1514  # size of a full packet in a queue
BYTES_OF_HEADERS = 66  # Ethernet, IPv4, and TCP with timestamps


class FormulaError(ValueError):
    """A formula that cannot be parsed or has no value; the message explains why."""


def bdp_pkts(rate_mbit: float, rtt_ms: float) -> float:
    """Return the bandwidth-delay product in full-size packets."""
    return response_functions.bdp_bytes(rate_mbit * 1e6, rtt_ms / 1000) / ETHERNET_FRAME_BYTES


def payload_mbit(rate_mbit: float) -> float:
    """Return the TCP payload rate of a full link, Mbit/s."""
    return rate_mbit * (1 - BYTES_OF_HEADERS / ETHERNET_FRAME_BYTES)


def window_mbit(window_bytes: float, rtt_ms: float) -> float:
    """Return the rate of one window per round trip, Mbit/s (RFC 7323, section 1.1)."""
    return response_functions.window_limit_bps(window_bytes, rtt_ms / 1000) / 1e6


def queue_ms(packets: float, rate_mbit: float) -> float:
    """Return the time to send a number of full-size packets at a rate, ms."""
    return packets * ETHERNET_FRAME_BYTES * 8 / (rate_mbit * 1000)


def cubic_window(loss: float, rtt_ms: float) -> float:
    """Return CUBIC's mean window at one loss every 1/loss packets (RFC 9438, section 5.1)."""
    return response_functions.cubic_window(loss, rtt_ms / 1000)


def pftk_window(loss: float, rtt_ms: float) -> float:
    """Return Reno's mean window under random loss, with timeouts (RFC 5348, section 3.1)."""
    return response_functions.pftk_window(loss, rtt_ms / 1000)


def cubic_leaves_reno(rtt_ms: float) -> float:
    """Return the loss rate below which CUBIC's window exceeds Reno's.

    It equates the two window formulas of RFC 9438, section 5.1.
    """
    constant = response_functions.CUBIC_FACTOR
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
    "reno_window": response_functions.reno_window,
    "cubic_window": cubic_window,
    "cubic_leaves_reno": cubic_leaves_reno,
    "pftk_window": pftk_window,
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
    """Return the value of a formula. Raises FormulaError, also for an infinite result."""
    try:
        value = value_of(parse_formula(text), names)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise (
            error if isinstance(error, FormulaError) else FormulaError(f"{text}: {error}")
        ) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise FormulaError(f"{text}: no finite number")
    return value


@lru_cache(maxsize=1000)
def parse_formula(text: str) -> ast.expr:
    """Return the syntax tree of a formula. Raises FormulaError."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"{text}: not a formula") from None


def variable_names(text: str) -> set[str]:
    """Return the names in a formula, except functions. Raises FormulaError."""
    read = {node.id for node in ast.walk(parse_formula(text)) if isinstance(node, ast.Name)}
    return read - set(FUNCTIONS)


def value_of(node: ast.expr, names: Mapping[str, Value]) -> Any:
    """Evaluate a syntax tree. Raises FormulaError, ArithmeticError, TypeError or ValueError."""
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
            operands = [bool(value_of(operand, names)) for operand in values]
            return all(operands) if isinstance(op, ast.And) else any(operands)
        case ast.IfExp(test=test, body=body, orelse=other):
            return value_of(body if value_of(test, names) else other, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(value_of(argument, names) for argument in args))
    raise FormulaError(f"{ast.unparse(node)}: nothing that a formula may have")


FORMULA_IN_TEXT = re.compile(r"<([^<>]+)>")


def fill_formulas(
    text: str, names: Mapping[str, Value], show: Callable[[Value], str] | None = None
) -> str:
    """Replace every <formula> in a text by its value: `<2 * rtt_ms>ms`.

    `show` formats a value (default: `shown`). Raises FormulaError.
    """
    write = show or format_value
    return FORMULA_IN_TEXT.sub(lambda match: write(evaluate(match[1], names)), text)


def format_rounded(value: Value) -> str:
    """Format a value for a sentence, a fraction with three significant digits."""
    is_small = isinstance(value, float) and abs(value) < 1000
    return format_value(float(f"{value:.3g}") if is_small else value)


def format_value(value: Value) -> str:
    """Format a value for a setting: integers without a point, others with six digits."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return str(value)
