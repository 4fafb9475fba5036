"""Seeing inside: `tap` at the site, `Recorder` around a pass, `Trace` to read afterwards, `SITES` to look names up."""

from .recorder import Recorder, Replacement, underneath
from .sites import SITES, VARIANTS, Site, sites_of
from .tap import recording, tap
from .trace import Trace

__all__ = [
    "SITES",
    "VARIANTS",
    "Recorder",
    "Replacement",
    "Site",
    "Trace",
    "recording",
    "sites_of",
    "tap",
    "underneath",
]
