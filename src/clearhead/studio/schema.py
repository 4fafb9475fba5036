"""What the studio's server and its page say to each other. The page's TypeScript types are generated from these.

A *pass* is one input through one model, recorded. Its *steps* are a table: each names its formula, the matrices that
go in and the one that comes out. Matrices travel apart, in binary, by their `key`.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Family = Literal["transformer", "gpt", "bert", "t5", "vit"]
Operation = Literal[
    "tokens",  # text cut into tokens, and their numbers
    "lookup",  # row i of the result is row ids[i] of the table: one-hot times matrix
    "pixels",  # the picture itself
    "patches",  # pixels of a patch, or of a window around a pixel, one behind the other
    "product",  # result[i,j] = sum over k of left[i,k] * right[k,j], + bias[j]
    "scale",  # result = left * factor
    "add",  # result = the sum of the operands, cell by cell; an operand of one row is added to every row
    "mask",  # result = left where looking is allowed, else -inf
    "softmax",  # result[i,j] = exp(left[i,j]) / sum over j of exp(left[i,j])
    "norm",  # (x - mean) / sqrt(variance + epsilon) * gain + bias, along the row
    "rms",  # x / sqrt(mean square + epsilon) * gain, along the row
    "activation",  # result = f(left), cell by cell; gated: times the second operand
    "concat",  # heads side by side
    "join",  # [CLS] put in front of the patches
    "pool",  # one row is taken, or the mean of all, or the largest of a window
    "choose",  # the most probable is taken
]


class Said(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Axis(Said):
    """What a matrix's rows or columns are. `labels` only where they are few; else `of` says which list of the pass."""

    of: Literal[
        "source", "target", "tokens", "patches", "dimensions", "vocabulary", "classes", "pixels", "heads", "one"
    ]
    size: int
    labels: list[str] | None = None


class Matrix(Said):
    """A matrix that can be asked for: GET /api/passes/{pass}/matrix?key=KEY[&head=N][&rows=a:b][&columns=c:d].

    heads   how many heads there are of it; 1: it is the same for all, and `head` is not asked for
    colour  signed: diverging around zero; share: 0 to 1; plain: numbers that are not compared (token numbers)
    site    the site that it is read from, or the weight's name; what `ch.record` calls it
    """

    key: str
    name: str
    means: str
    rows: Axis
    columns: Axis
    heads: int = 1
    colour: Literal["signed", "share", "plain"] = "signed"
    site: str
    kind: Literal["site", "weight", "derived"]


class Code(Said):
    """Where the numbers are computed: GET /api/source?file=FILE gives the text."""

    file: str
    line: int


class Window(Said):
    """Which places a row looks at: size x size of a grid (rows, columns), the first `padding` beyond its corner.

    The next row's window lies `stride` places further. Beyond the edge pixels are zero, and nothing is the largest.
    """

    grid: tuple[int, int]
    size: int
    stride: int
    padding: int


class Step(Said):
    """One row of the table.

    part      steps of one part make a ribbon: "input", "encoder.0.attention", "decoder.1.cross", "head" ...
    short     for the ribbon; title: for the stage; formula: LaTeX
    says      what the step does, in two sentences; slip: where a lecture deck slips, and how
    departs   where this model departs from the 2017 paper, at this step
    operands  in the order that the operation takes them: product: left, right, [bias]; norm: x, gain, bias ...
    factor    of scale; epsilon: of a norm; function: of an activation ("relu", "gelu", "gelu_tanh", "tanh", "silu") or
              of a pooling ("first", "mean", "max")
    window    of patches and of a pooling: where each row looks, unless it is a patch of the picture's grid
    changed   a change to the pass acts here: the result does not follow from the operands, and why, in words
    """

    id: str
    part: str
    short: str
    title: str
    formula: str
    says: str
    next: str | None = None
    slip: str | None = None
    departs: list[str] = Field(default_factory=list)
    operation: Operation
    operands: list[Matrix]
    result: Matrix
    factor: float | None = None
    epsilon: float | None = None
    function: str | None = None
    window: Window | None = None
    changed: str | None = None
    code: Code


class Node(Said):
    """A line of the left rail: a block with parts, or a part. `column` is set in an encoder-decoder."""

    id: str
    title: str
    shape: str
    column: Literal["encoder", "decoder"] | None = None
    part: str | None = None
    parts: list["Node"] = Field(default_factory=list)


class Token(Said):
    """`text`: as the tokenizer writes it; `shown`: with its spaces made visible; `start`, `end` in the typed text."""

    id: int
    text: str
    shown: str
    start: int | None = None
    end: int | None = None
    special: bool = False


class Picture(Said):
    """The picture as the model sees it: GET /api/passes/{pass}/picture gives a PNG of width x height.

    name  what its file was called, where it was sent
    """

    width: int
    height: int
    grid: tuple[int, int]
    patch: tuple[int, int]
    class_token: bool
    name: str | None = None


class Chance(Said):
    """One possible outcome: its number, what it is called, its logit and its probability."""

    id: int
    text: str
    logit: float
    probability: float


class Prediction(Said):
    """What the model says at one place: of the tokens, of a masked word, of the class."""

    of: str
    place: int
    top: list[Chance]


class ModelCard(Said):
    """A model that can be opened. `random`: its weights are not trained, and every view says so.

    A checkpoint that can't be opened has a `problem`; where even its kind is not known its family is "unknown".
    """

    id: str
    name: str
    family: Family | Literal["unknown"]
    folder: str | None
    random: bool
    seed: int | None = None
    parameters: int
    layers: int
    heads: int
    width: int
    context: int | None
    takes: list[Literal["text", "source", "target", "image"]]
    task: str
    figures: dict[str, float] = Field(default_factory=dict)
    example: "Inputs"
    problem: str | None = None


class Inputs(Said):
    """What is put in: a text (with [MASK] for BERT; `second` for its second sentence), a pair, or a picture.

    picture  "digits/test/17" of a set, or "upload/NAME" that POST /api/pictures gave
    """

    text: str | None = None
    second: str | None = None
    source: str | None = None
    target: str | None = None
    picture: str | None = None


class Change(Said):
    """Something done to a pass: see analyse/interventions. `layers` and `heads` count from 0."""

    kind: Literal["heads-off", "temperature", "no-positions", "patch", "tokens"]
    stack: Literal["encoder", "decoder", "cross"] | None = None
    layer: int | None = None
    heads: list[int] | None = None
    factor: float | None = None
    site: str | None = None
    other: Inputs | None = None
    place: int | None = None
    token: int | None = None


class PassWanted(Said):
    model: str
    inputs: Inputs
    changes: list[Change] = Field(default_factory=list)


class Pass(Said):
    """One recorded pass. `id` is the same for the same model, input and changes: a link finds it again.

    tokens      by the names that axes use: "tokens", or "source" and "target"; empty for a picture
    nodes       the left rail; steps: the table, in the order of the pass
    cut         what of the input was cut, in words; left_out: sites that did not fit into memory
    equal_to_fused  largest difference of the output between the recorded path and the fast one
    dropped     passes that were forgotten to make room
    written     the target that the model wrote itself, greedily, because none was given
    notes       what else a reader should know about how the input was made
    """

    id: str
    model: ModelCard
    inputs: Inputs
    changes: list[Change]
    path: Literal["reference"]
    equal_to_fused: float
    tokens: dict[str, list[Token]]
    picture: Picture | None
    nodes: list[Node]
    steps: list[Step]
    predictions: list[Prediction]
    attention: list["AttentionKind"]
    cut: str | None = None
    left_out: list[str] = Field(default_factory=list)
    dropped: list[str] = Field(default_factory=list)
    written: str | None = None
    notes: list[str] = Field(default_factory=list)
    seconds: float


class AttentionKind(Said):
    """Self-attention of a stack, or cross-attention: layers x heads of rows x columns."""

    kind: Literal["encoder", "decoder", "cross"]
    layers: int
    heads: int
    rows: Axis
    columns: Axis


class PictureSet(Said):
    """A set of pictures that is there to choose from: GET /api/pictures?set=NAME."""

    name: str
    about: str


class PictureOffered(Said):
    """A picture of a set: `picture` goes into Inputs; GET /api/pictures/{picture} gives a PNG."""

    picture: str
    label: str


class PictureKept(Said):
    """A picture that was sent: `picture` goes into Inputs, for as long as there is room for it."""

    picture: str
    name: str
    width: int
    height: int


class Problem(Said):
    """Every refusal: what happened and what to do, in one line."""

    problem: str
