"""How a convolution makes rows of a picture: every pixel's window, times the filters, ReLU, the largest of each window.

A convolution is a product: the window around a pixel is a row, a filter is a column.
"""

from ...layers import ConvolutionInput
from ..schema import Matrix, Step, Window
from .feed_forward import ACTS, FORMULAS
from .making import Maker
from .source import code, tapped

SIZE = 3  # of ConvolutionInput's windows, which lie around their pixel
PADDING = SIZE // 2
NO_TABLE = "a convolution makes the rows: the paper looks words up in a table"


def convolved(make: Maker, image: Matrix) -> list[Step]:
    """From pixels to the rows that positions are added to."""
    windows = _windows(make, image)
    product = _product(make, windows.result)
    rectified = _rectified(make, product.result)
    return [windows, product, rectified, _largest(make, rectified.result)]


def _window(make: Maker, stride: int) -> Window:
    high, wide = make.model.config.image
    return Window(grid=(high, wide), size=SIZE, stride=stride, padding=PADDING)


def _windows(make: Maker, image: Matrix) -> Step:
    channels = make.model.config.channels
    return make.step(
        "input",
        "windows",
        short="windows",
        title=f"The {SIZE} × {SIZE} pixels around every pixel, as one row",
        announced=f"the {SIZE} × {SIZE} pixels around every pixel are put in one row",
        formula=rf"x_p \in \mathbb{{R}}^{{{channels} \cdot {SIZE} \cdot {SIZE}}}",
        says=f"Around every pixel lies a window of {SIZE} × {SIZE}: its pixels are put one behind the other, channel "
        "by channel, with zeros beyond the edge. Nothing is computed, but a pixel now stands in up to nine rows.",
        operation="patches",
        operands=[image],
        window=_window(make, 1),
        result=make.site("input.windows", "X_W", "a window of pixels around every pixel", "pixels", "pixels"),
        code=code(ConvolutionInput, "self.windows"),
    )


def _product(make: Maker, windows: Matrix) -> Step:
    filters = make.matrix("weight:input.project", "W_F", "the filters, a column each", "pixels")
    return make.step(
        "input",
        "convolved",
        short="convolution",
        title="Convolution: every window against every filter",
        announced="every window is multiplied by the same filters",
        formula=r"C = X_W\, W_F",
        says="Every window is multiplied by one matrix: this product is the convolution. "
        "Each of its columns is a filter, a small picture that is laid over every place of the picture.",
        departs=[NO_TABLE],
        operation="product",
        operands=[windows, filters],
        result=make.site("input.convolved", "C", "how well each filter fits around each pixel", "pixels"),
        code=tapped(ConvolutionInput, "convolved"),
    )


def _rectified(make: Maker, x: Matrix) -> Step:
    return make.step(
        "input",
        "rectified",
        short="ReLU",
        title="After the non-linearity",
        announced="what is negative becomes zero",
        formula="R = " + FORMULAS["relu"].format(x=x.name),
        says=f"{ACTS['relu']} A filter so says only where it fits, not where its opposite does.",
        operation="activation",
        operands=[x],
        function="relu",
        result=make.site("input.rectified", "R", "nothing below zero is left", "pixels"),
        code=tapped(ConvolutionInput, "rectified"),
    )


def _largest(make: Maker, x: Matrix) -> Step:
    step = ConvolutionInput.STEP
    around = rf"q \,\in\, {SIZE} \times {SIZE} \text{{ around }} p"
    return make.step(
        "input",
        "largest",
        short="max-pool",
        title="Max-pool: the largest of each window",
        announced=f"the largest of {SIZE} × {SIZE} is kept, at every second pixel",
        formula=rf"E_p = \max_{{{around}}} {x.name}_q",
        says=f"At every second pixel and for every filter the largest of the {SIZE} × {SIZE} around it is kept. "
        f"So a row stands for {step} × {step} pixels: these rows are the tokens that the blocks read.",
        operation="pool",
        operands=[x],
        function="max",
        window=_window(make, step),
        result=make.site("input.projected", "E", "a row for every second pixel", "patches"),
        code=code(ConvolutionInput, "F.max_pool2d"),
    )
