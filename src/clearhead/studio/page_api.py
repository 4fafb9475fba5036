"""The page itself, and the source of the package that its steps point to."""

from html import escape
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.staticfiles import StaticFiles

from ..errors import near, shown
from ..files import read_text
from .core import Studio
from .refusals import Unknown

PACKAGE = Path(__file__).resolve().parents[1]
TEXT = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>clearhead studio</title></head>
<body><h1>The page is not built</h1>
<p>The studio's server runs, but its page is missing. In a checkout, <code>pip install -e .</code> builds it, or
<code>npm ci &amp;&amp; npm run build</code> in <code>web/</code>; then reload.</p></body></html>
"""


def router(studio: Studio) -> APIRouter:
    routes, page = APIRouter(), studio.settings.page

    @routes.get("/", include_in_schema=False)
    @routes.get("/index.html", include_in_schema=False)
    def index() -> HTMLResponse:
        """Our page, with the token that it proves itself with; a reload finds a page that was built meanwhile."""
        built = page / "index.html"
        text = read_text(built) if built.is_file() else NOT_BUILT
        tag = f'<meta name="clearhead-token" content="{escape(studio.settings.token)}">'
        return HTMLResponse(text.replace("<head>", f"<head>{tag}", 1))

    @routes.get("/api/source", response_class=PlainTextResponse, responses={**TEXT}, tags=["source"])
    def source(file: str) -> Response:
        """The text of a file of the package, such as ops/attention.py."""
        known = package_files()
        if file not in known:
            raise Unknown(f"the package has no file '{shown(file, 80)}'{near(file, known)}")
        return PlainTextResponse(read_text(known[file]))

    return routes


def package_files() -> dict[str, Path]:
    """By the names that may be asked for: what is not in this list can't be read, however it is spelt."""
    return {file.relative_to(PACKAGE).as_posix(): file for file in PACKAGE.rglob("*.py") if not file.is_symlink()}


class Assets(StaticFiles):
    """What the page loads: scripts, styles, fonts. The folder may be missing, and come while the server runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, check_dir=False)
        self.config_checked = True
