# SPDX-License-Identifier: MIT
"""Let only the person who started the server use it: token, Host, Origin, sizes and headers.

A page of another site may send requests to this machine, and may have its name resolve to it (DNS
rebinding). So a request must name this server as its host, must come from this server's own page if
a browser says where it comes from, and must have the token, in the address or in the cookie that
the address set.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 64_000
BODY_WITHIN_S = 10.0  # from one part of a body to the next
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
POLICY_HEADER = b"content-security-policy"
HEADERS = (
    (POLICY_HEADER, POLICY.encode()),  # the first: an answer may have a policy of its own
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
# What is served without a token: nothing that says who runs what.
OPEN_PATHS = ("/favicon.ico",)
OPEN_IN_CLASS = ("/class", "/class/join", "/class/me")
OPEN_FOLDER = "/page/"  # the page's files
OWNER, STUDENT = "gostlab.owner", "gostlab.student"  # keys of an ASGI scope
# Concurrent requests of a student; the owner has four times as many, and all who have not joined.
MAX_ANSWERING = 24


class ClassAccess(Protocol):
    """Know a class's students by their sessions."""

    @property
    def address(self) -> str:
        """Return the origin that students open, or ""."""

    @property
    def students_by_session(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class AccessGuard:
    """Wrap an ASGI application: answer what may not pass, and add headers to every answer.

    port: the port in the server's address; the one that a virtual machine forwards may differ, so
    that any port of a loopback name is accepted. The browser compares Origin with Host exactly.
    The scope of a request that passes says who asks: OWNER (who has the token: in a class the
    teacher) and STUDENT.
    """

    app: App
    token: str
    port: int
    door: ClassAccess | None = None
    answering: Counter[str] = field(default_factory=Counter)

    @property
    def cookie_name(self) -> str:
        return f"gostlab-{self.port}"  # cookies do not tell ports apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self.refusal(scope, headers)
        if refusal is not None:
            status, text = refusal
            await answer_text(send, status, text, self.headers(scope))
            return
        student = self.student_of(headers)
        scope[OWNER], scope[STUDENT] = self.has_token(scope, headers), student
        who = "the owner" if scope[OWNER] else student or "nobody yet"
        if self.answering[who] >= (MAX_ANSWERING if student else 4 * MAX_ANSWERING):
            text = "too many requests at once: ask again in a moment"
            await answer_text(send, 429, text, self.headers(scope))
            return
        bounded = BoundedBody(receive)

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer_headers = list(message.get("headers", ()))
                message = {**message, "headers": self.merge_headers(answer_headers, scope)}
            await send(message)

        self.answering[who] += 1
        try:
            await self.app(scope, bounded.receive, send_with_headers)
        finally:
            self.answering[who] -= 1

    def refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Return the status and the line that refuse a request, or None if it may pass."""
        host = headers.get(b"host", b"").decode("latin-1")
        address = self.door.address if self.door else ""
        if not is_loopback(host) and (not address or host.lower() != urlsplit(address).netloc):
            return 421, f"this server answers to {address or 'localhost and 127.0.0.1'} alone"
        if not comes_from_here(
            headers, [f"http://{host}", *filter(None, [address])], str(scope["method"])
        ):
            return 403, "a request from another site"
        if scope["path"] in OPEN_PATHS or self.has_token(scope, headers):
            return None
        if self.door is None:
            return 403, "the token is missing: open the address that ./lab serve printed"
        if scope["path"] in OPEN_IN_CLASS or scope["path"].startswith(OPEN_FOLDER):
            return None
        if self.student_of(headers) and not scope["path"].startswith("/teacher"):
            return None
        return 403, "join the class first: open /class"

    def student_of(self, headers: dict[bytes, bytes]) -> str:
        """Return the student whose session a request's cookie has, or ""."""
        if self.door is None:
            return ""
        cookie = self.cookies(headers).get(self.session_name)
        return self.door.students_by_session.get(cookie.value, "") if cookie else ""

    @property
    def session_name(self) -> str:
        return f"{self.cookie_name}-student"

    def has_token(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        given = [*self.tokens_in_address(scope), *self.tokens_in_cookie(headers)]
        return any(map(self.is_token, given))

    def is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())

    def tokens_in_address(self, scope: Scope) -> list[str]:
        query = scope.get("query_string", b"").decode("latin-1")
        try:
            return parse_qs(query, max_num_fields=200).get("token", [])[:1]
        except ValueError:
            return []

    def tokens_in_cookie(self, headers: dict[bytes, bytes]) -> Iterable[str]:
        cookie = self.cookies(headers).get(self.cookie_name)
        return [cookie.value] if cookie else []

    def cookies(self, headers: dict[bytes, bytes]) -> SimpleCookie:
        try:
            return SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return SimpleCookie()

    def merge_headers(
        self, answer_headers: list[tuple[bytes, bytes]], scope: Scope
    ) -> list[tuple[bytes, bytes]]:
        """Return an answer's headers with those of every answer, and its own policy if it has one.

        A browser holds a page to each policy that it is sent, so that there must be only one.
        """
        has_policy = any(name.lower() == POLICY_HEADER for name, _ in answer_headers)
        added = self.headers(scope)[1 if has_policy else 0 :]
        replaced = {name for name, _ in added if name != b"set-cookie"}
        return [pair for pair in answer_headers if pair[0].lower() not in replaced] + added

    def headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the headers of every answer; an address with the token sets the cookie."""
        added = list(HEADERS)
        if any(map(self.is_token, self.tokens_in_address(scope))):
            added.append((b"set-cookie", self.cookie(self.cookie_name, self.token).encode()))
        return added

    def session_cookie(self, session: str) -> str:
        """Return the Set-Cookie header of a student who joined; "" ends the session."""
        cookie = self.cookie(self.session_name, session)
        return cookie if session else f"{cookie}; Max-Age=0"

    def cookie(self, name: str, value: str) -> str:
        is_secure = self.door is not None and self.door.address.startswith("https:")
        return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' * is_secure}"


def is_loopback(host: str) -> bool:
    """Return whether a Host header names this machine's loopback, with any port."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name = host
    return name.lower() in LOOPBACK_NAMES


def comes_from_here(headers: dict[bytes, bytes], origins: Iterable[str], method: str) -> bool:
    """Return whether a browser's request comes from the server's own page, or from no page.

    Browsers send Origin with every request that may change something, and Sec-Fetch-Site with all.
    Opening a link in another site's page is allowed: that only shows the page.
    """
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() not in map(str.lower, origins):
        return False
    site = headers.get(b"sec-fetch-site", b"none")
    if site in (b"none", b"same-origin"):
        return True
    opens_page = headers.get(b"sec-fetch-mode") == b"navigate"
    return method == "GET" and opens_page and headers.get(b"sec-fetch-dest") == b"document"


class BoundedBody:
    """Receive a request's body up to MAX_BODY_BYTES, within BODY_WITHIN_S."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._received_bytes = 0
        self._complete = False

    async def receive(self) -> MutableMapping[str, Any]:
        if self._complete:  # all that is left is the end of the connection
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), BODY_WITHIN_S)
        except TimeoutError:
            return {"type": "http.disconnect"}
        if message["type"] == "http.request":
            self._received_bytes += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._received_bytes > MAX_BODY_BYTES:
                raise HTTPException(413, f"more than {MAX_BODY_BYTES} bytes\n")
        return message


async def answer_text(
    send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]
) -> None:
    """Answer a line of text, and close the connection."""
    body = f"{text}\n".encode()
    content_type = (b"content-type", b"text/plain; charset=utf-8")
    length, close = (b"content-length", str(len(body)).encode()), (b"connection", b"close")
    head = [content_type, length, close, *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
