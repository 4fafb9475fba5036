"""One HTML file with everything in it: the built page, its scripts, styles and fonts, and a pass. No server."""

import base64
import html
import json
import mimetypes
import re
from pathlib import Path
from typing import Any

from ..errors import ClearheadError
from ..files import read_text
from .passes import Passes
from .share import LARGEST_PAGE, document

NOT_BUILT = (
    "the studio's page is not built: in a checkout, `pip install -e .` or `npm ci && npm run build` in web/ does it"
)
ALONE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "base-uri 'none'; form-action 'none'"
)
SCRIPT = re.compile(r"<script\b([^>]*?)\bsrc=\"([^\"]+)\"([^>]*)>\s*</script>")
LINK = re.compile(r"<link\b[^>]*>")
HREF = re.compile(r"\bhref=\"([^\"]+)\"")
URL = re.compile(r"url\((['\"]?)(?!data:|#)([^'\")]+)\1\)")
PIECES = re.compile(r"\b(?:import|from)\s*\(?\s*[\"']\./[^\"']+\.js[\"']")
HERE = "<!-- the pass -->"
SPARE = 20_000  # bytes for what stands around the document


def shared_page(passes: Passes, id: str, page: Path) -> tuple[str, dict[str, Any]]:
    """The HTML of a kept pass, and the document inside it."""
    kept, empty = passes.get(id), bundle(page)
    inside = document(kept, passes.matrices(id), LARGEST_PAGE - len(empty.encode()) - SPARE)
    title = f"{kept.said.model.name}: a pass in clearhead"
    text = _filled(empty, title, inside)
    if len(text.encode()) > LARGEST_PAGE:
        raise ClearheadError(f"the page would have {len(text.encode()) / 1e6:.1f} MB, more than 10: shorten the input")
    return text, inside


def _filled(empty: str, title: str, inside: dict[str, Any]) -> str:
    """The document stands before the scripts; no `<` in it can end its element."""
    data = json.dumps(inside, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    said = "".join(f"<li>{html.escape(line)}</li>" for line in inside["notes"])
    aside = f'<aside id="clearhead-shared-notes"><ul>{said}</ul></aside>' if said else ""
    body = f'{aside}<script type="application/json" id="clearhead-shared">{data}</script>'
    text = re.sub(r"<title>.*?</title>", lambda _: f"<title>{html.escape(title)}</title>", empty, count=1, flags=re.S)
    return text.replace(HERE, body, 1)


def bundle(page: Path) -> str:
    """The built page with scripts, styles and fonts inside, which may load nothing; a mark says where a pass goes."""
    index = page / "index.html"
    if not index.is_file():
        raise ClearheadError(NOT_BUILT)
    text = LINK.sub(lambda found: _link(found[0], page), read_text(index))
    scripts = [_script(found[1] + found[3], read_text(_file(page, found[2]))) for found in SCRIPT.finditer(text)]
    text = SCRIPT.sub("", text)
    rule = f'<meta http-equiv="Content-Security-Policy" content="{ALONE}">'
    if "<head>" not in text or "</body>" not in text or not scripts:
        raise ClearheadError(f"{index} is not the studio's page: build it anew")
    text = text.replace("<head>", f"<head>{rule}", 1)
    return text.replace("</body>", f"{HERE}{''.join(scripts)}</body>", 1)


def _script(attributes: str, code: str) -> str:
    """An inline module waits for the document as one from a file does."""
    if PIECES.search(code):
        raise ClearheadError("the studio's page is built in several scripts, which can't be put into one file")
    kind = ' type="module"' if "module" in attributes else ""
    code = code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"<script{kind}>{code}</script>"


def _link(tag: str, page: Path) -> str:
    """A style sheet becomes a style; what only hurries a script along goes; an icon that is data stays."""
    target = HREF.search(tag)
    if 'rel="stylesheet"' in tag and target is not None:
        file = _file(page, target[1])
        style = URL.sub(lambda found: f"url({_data(_file(file.parent, found[2], page))})", read_text(file))
        return "<style>" + style.replace("</style", "<\\/style") + "</style>"
    return tag if target is not None and target[1].startswith("data:") else ""


def _data(file: Path) -> str:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def _file(folder: Path, name: str, page: Path | None = None) -> Path:
    """A file of the built page, by a path in it."""
    root = (page or folder).resolve()
    plain = name.partition("?")[0].partition("#")[0]
    file = (root / plain.lstrip("/") if plain.startswith("/") else folder / plain).resolve()
    if not file.is_relative_to(root) or not file.is_file():
        raise ClearheadError(f"the studio's page names {name}, which is not in it: build it anew")
    return file
