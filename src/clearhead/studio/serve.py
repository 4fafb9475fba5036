"""The studio on a port of this machine, and a browser on the studio."""

import errno
import os
import socket
import sys
import threading
import time
import webbrowser
from contextlib import suppress

import uvicorn

from ..errors import ClearheadError
from .app import create_app
from .core import Settings

HOST = "127.0.0.1"
PORT = 8421
PATIENCE = 30  # seconds until a server that has not started is not waited for


def serve(settings: Settings, port: int | None = None, browser: bool = True) -> None:
    """Serve until Ctrl-C. `port`: that one or an error; the usual one, or any free one, unless given."""
    app = create_app(settings)
    with listening(port) as open_socket:
        got = open_socket.getsockname()[1]
        address = f"http://{HOST}:{got}/"
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        taken = f", port {PORT} is taken" if port is None and got != PORT else ""
        print(f"clearhead studio: {address} (Ctrl-C ends it{taken})", flush=True)
        if browser and has_screen():
            threading.Thread(target=_show, args=(server, address), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.run(sockets=[open_socket])


def listening(port: int | None) -> socket.socket:
    """A socket on this machine alone."""
    if port is not None and not 1 <= port <= 65535:
        raise ClearheadError(f"a port is a number from 1 to 65535, not {port}")
    for wanted in (port,) if port is not None else (PORT, 0):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, wanted))
            made.listen()  # at once: who reads the address may ask before the server has started
        except OSError as problem:
            made.close()
            if wanted == port:
                raise ClearheadError(_unusable(wanted, problem)) from None
            continue
        return made
    raise ClearheadError("no port of this machine is free")


def _unusable(port: int, problem: OSError) -> str:
    if problem.errno == errno.EADDRINUSE:
        return (
            f"port {port} is taken, perhaps by a studio that runs already: give another --port, or none for a free one"
        )
    return f"port {port} can't be used ({problem.strerror}): give another --port"


def has_screen() -> bool:
    """Whether a browser could open: a Linux without a display has none."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _show(server: uvicorn.Server, address: str) -> None:
    end = time.monotonic() + PATIENCE
    while not server.started and time.monotonic() < end:
        time.sleep(0.05)
    if server.started:
        webbrowser.open(address)
