"""From a picture to rows: patches or a convolution, [CLS] in front, places, their sum."""

from ...layers import ConvolutionInput, PatchInput, PictureInput
from ...layers import picture_input as layer
from ..schema import Matrix, Node, Step
from .convolution import convolved
from .making import Maker, Part, plus_bias, shape_of
from .positions import positions, summed
from .source import code, tapped
from .stream import part_of

ICLR = 'A deck dates "An Image is Worth 16x16 Words" to ICLR 2017. It is of ICLR 2021.'
MNIST = 'A deck calls the set of handwritten digits "MIST". Its name is MNIST.'
PIXELS = "a picture is read: the paper reads words"
NO_TABLE = "patches are multiplied by a matrix: the paper looks words up in a table"
CLASS_TOKEN = "a learned [CLS] row is put in front: the paper has none"
WITHOUT = "no positions: the paper adds sines and cosines"


def picture_input(make: Maker) -> Part:
    module = part_of(make.model, "input", PictureInput)
    steps = [_picture(make, module)]
    cut = convolved if isinstance(module, ConvolutionInput) else _patches
    steps += cut(make, steps[0].result)
    if module.class_token is not None:
        steps.append(_joined(make, steps[-1].result))
    if module.positions is not None:
        x, kind = steps[-1].result, make.model.config.positions
        steps.append(positions(make, "input", "patches", kind, tapped(PictureInput, "positions"), means="patches"))
        steps.append(summed(make, "input", "patches", [x, steps[-1].result], tapped(PictureInput, "summed")))
    else:
        steps[-1] = steps[-1].model_copy(update={"departs": [*steps[-1].departs, WITHOUT]})
    return Part(Node(id="input", title="Picture", shape=shape_of(steps[-1].result), part="input"), steps)


def _picture(make: Maker, module: PictureInput) -> Step:
    c = make.model.config
    return make.step(
        "input",
        "picture",
        short="picture",
        title="The picture",
        announced="the picture comes in",
        formula=rf"I \in \mathbb{{R}}^{{{c.channels} \times {c.image[0]} \times {c.image[1]}}}",
        says="This is the picture as the model sees it: brought to its size, each channel shifted and stretched. "
        "A number is the brightness of one pixel in one colour.",
        slip=MNIST,
        departs=[PIXELS],
        operation="pixels",
        operands=[],
        result=make.site("input.image", "I", "pixels, the channels one below the other", "pixels", "pixels"),
        code=tapped(type(module), "image"),
    )


def _patches(make: Maker, image: Matrix) -> list[Step]:
    c = make.model.config
    cut = make.step(
        "input",
        "patches",
        short="patches",
        title=f"Cut into {c.grid[0]} × {c.grid[1]} patches",
        announced="the picture is cut into patches",
        formula=rf"I \;\to\; {c.grid[0]} \times {c.grid[1]} \text{{ patches of }} {c.patch[0]} \times {c.patch[1]}",
        says="The picture is cut into patches, line by line. "
        "A patch is to this model what a word is to one that reads text.",
        slip=ICLR,
        departs=[PIXELS],
        operation="pixels",
        operands=[image],
        result=image,
        code=code(layer.cut, "images.view") if c.step == c.patch else code(PatchInput.patches, "F.unfold"),
    )
    flat = _flattened(make, image)
    return [cut, flat, _projected(make, flat.result)]


def _flattened(make: Maker, image: Matrix) -> Step:
    c = make.model.config
    return make.step(
        "input",
        "flattened",
        short="flattened",
        title="Each patch as one row",
        announced="the pixels of each patch are put in one row",
        formula=rf"x_p \in \mathbb{{R}}^{{{c.channels} \cdot {c.patch[0]} \cdot {c.patch[1]}}}",
        says="The pixels of each patch are put one behind the other: channel by channel, and in it line by line. "
        "Nothing is computed, the same numbers only stand in another order.",
        operation="patches",
        operands=[image],
        result=make.site("input.patches", "X_P", "a row of pixels for every patch", "patches", "pixels"),
        code=tapped(PatchInput, "patches"),
    )


def _projected(make: Maker, flat: Matrix) -> Step:
    operands = [flat, *make.factors("input.project", "W_P", "makes rows of the stream's width")]
    operands[1] = operands[1].model_copy(update={"rows": operands[1].rows.model_copy(update={"of": "pixels"})})
    return make.step(
        "input",
        "projected",
        short="projected",
        title="Patches, projected",
        announced="every patch is multiplied by the same matrix",
        formula=r"E = X_P\, W_P" + plus_bias(operands),
        says="Every patch is multiplied by one matrix and becomes a row of the stream. "
        "Each column of the matrix is a small picture that the patch is compared with.",
        departs=[NO_TABLE],
        operation="product",
        operands=operands,
        result=make.site("input.projected", "E", "a row for every patch", "patches"),
        code=tapped(PatchInput, "projected"),
    )


def _joined(make: Maker, projected: Matrix) -> Step:
    token = make.matrix("weight:input.class_token", "x_CLS", "a learned row, the same for every picture", "one")
    return make.step(
        "input",
        "joined",
        short="[CLS]",
        title="[CLS] in front of the patches",
        announced="a learned row is put in front of the patches",
        formula=r"E' = \begin{bmatrix} x_{\mathrm{CLS}} \\ E \end{bmatrix}",
        says="A learned row, the same for every picture, is put in front of the patches. "
        "It collects what the blocks find, and at the end the class is read from it.",
        departs=[CLASS_TOKEN],
        operation="join",
        operands=[token, projected],
        result=make.site("input.tokens", "E'", "[CLS], then the patches", "patches"),
        code=tapped(PictureInput, "tokens"),
    )
