"""Photographs with a map over them, inside the page as PNG written by us: nothing is fetched."""

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import torch
import torch.nn.functional as F
from torch import Tensor

from .scale import OVER

LARGEST_PICTURE = 160  # pixels of an edge; larger ones are reduced


@dataclass(frozen=True)
class Tile:
    """A picture for a grid: its SVG and what is written under it; `good` colours the mark before that."""

    svg: str
    lines: Sequence[str]
    good: bool | None = None


def picture(pixels: Tensor, told: str, over: Tensor | None = None, edge: int = 112) -> str:
    """pixels uint8 (C,H,W), grey or in colour; `over` (H,W) lies upon it, from nothing at 0 to solid at its largest.

    Under a map the picture is grey and calmer, so that what is seen of colour is the map.
    """
    height, width = pixels.shape[1:]
    base = pixels.float()
    if over is not None:
        weights = torch.tensor([0.3, 0.59, 0.11])[:, None, None] if len(base) == 3 else torch.ones(1, 1, 1)
        base = (base * weights).sum(0, keepdim=True) * 0.5 + 24
    images = _image(base, False)
    if over is not None:
        alpha = over / over.max().clamp(min=1e-12) * 215
        colour = torch.tensor(OVER, dtype=torch.float32)[:, None, None].expand(3, height, width)
        images += _image(torch.cat([colour, alpha[None].float()]), True)
    return (
        f'<svg viewBox="0 0 1 {height / width:.4f}" width="{edge}" height="{round(edge * height / width)}" '
        f'role="img" aria-label="{escape(told, quote=True)}"><title>{escape(told)}</title>{images}</svg>'
    )


def _image(channels: Tensor, sharp: bool) -> str:
    height, width = channels.shape[1:]
    factor = max(height, width) / LARGEST_PICTURE
    if factor > 1:
        size = max(1, round(height / factor)), max(1, round(width / factor))
        channels = F.interpolate(channels[None], size=size, mode="area")[0]
    crisp = ' style="image-rendering:pixelated"' if sharp or max(height, width) < 64 else ""
    data = base64.b64encode(png(channels.round().clamp(0, 255).byte())).decode()
    return (
        f'<image href="data:image/png;base64,{data}" width="1" height="{height / width:.4f}" '
        f'preserveAspectRatio="none"{crisp}/>'
    )


def png(pixels: Tensor) -> bytes:
    """uint8 (C,H,W) of 1 (grey), 3 (colour) or 4 channels (with transparency) as a PNG file."""
    channels, height, width = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[channels]
    rows = pixels.permute(1, 2, 0).reshape(height, -1)
    raw = b"".join(b"\0" + bytes(row.tolist()) for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def picture_grid(tiles: Sequence[Tile]) -> str:
    """Pictures side by side, as many to a line as fit."""
    return f'<div class="tiles">{"".join(map(_tile, tiles))}</div>'


def _tile(tile: Tile) -> str:
    mark = {None: "", True: '<i class="good">✓</i> ', False: '<i class="bad">✗</i> '}[tile.good]
    lines = "<br>".join(map(escape, tile.lines))
    return f"<figure>{tile.svg}<figcaption>{mark}{lines}</figcaption></figure>"
