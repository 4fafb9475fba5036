"""Who may ask: a browser on this machine, and for what changes something our own page alone.

- The Host header must name this machine: a foreign name that was made to point here (DNS rebinding) is refused.
- What is not a mere reading (POST, DELETE ...) needs the token that our page carries in a meta tag, and an Origin that
  is ours; a program that sends none needs the token all the same. So no other site can start anything.
- Bodies are bounded before anything looks at them.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

TOKEN_HEADER = "x-clearhead-token"
READING = ("GET", "HEAD", "OPTIONS")
UPLOADS = "/api/pictures"
LARGEST_UPLOAD = 25 * 10**6
LARGEST_BODY = 2 * 10**6
OURS = re.compile(r"(localhost|127\.0\.0\.1)(:\d{1,5})?")

SECURITY = {
    # Formulas and heat maps set style attributes; nothing else runs or loads that is not the server's own.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class TooLarge(Exception):
    """A body of more bytes than its route takes."""


class Guard:
    """Stands before every route."""

    def __init__(self, app: Any, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        safe = with_headers(send)
        headers, method = Headers(scope=scope), scope["method"]
        problem = refusal(method, headers, self.token)
        if problem is not None:
            await JSONResponse({"problem": problem}, 403)(scope, receive, safe)
            return
        if method not in READING:
            limit = LARGEST_UPLOAD if scope["path"] == UPLOADS else LARGEST_BODY
            try:
                receive = await bounded(receive, headers, limit)
            except TooLarge:
                said = f"more than {limit / 1e6:.0f} MB were sent, which is refused: send something smaller"
                await JSONResponse({"problem": said}, 413)(scope, receive, safe)
                return
        await self.app(scope, receive, safe)


def refusal(method: str, headers: Headers, token: str) -> str | None:
    """Why a request is not answered, or None."""
    host = headers.get("host", "")
    if not OURS.fullmatch(host):
        return "the studio answers to localhost and 127.0.0.1 alone: open it under one of these"
    if method in READING:
        return None
    if headers.get("origin") not in (None, f"http://{host}"):
        return "another site sent this request: the studio answers its own page alone"
    if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), token.encode()):
        return "the request lacks this studio's token: reload the page"
    return None


async def bounded(receive: Receive, headers: Headers, limit: int) -> Receive:
    """The whole body, read here and told again to whoever stands behind."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise TooLarge
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise TooLarge
        more = message.get("more_body", False)
    waiting = [{"type": "http.request", "body": b"".join(chunks), "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def with_headers(send: Send) -> Send:
    """Every answer tells the browser what it may do with it."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
