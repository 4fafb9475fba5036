"""A run as one HTML page, and what a terminal can show of it."""

from .page import write_report
from .samples import sample_predictions
from .terminal import show_samples

__all__ = ["sample_predictions", "show_samples", "write_report"]
