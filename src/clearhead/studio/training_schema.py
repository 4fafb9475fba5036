"""What server and page say to each other about training: recipes, jobs, runs, one update opened."""

from typing import Literal

from pydantic import Field

from .schema import Said

State = Literal["starting", "running", "stopping", "interrupted", "finished", "failed"]


class RecipeCard(Said):
    """A recipe with what it costs and gives, as measured. `quick`: whether it has a short version."""

    name: str
    title: str
    costs: str
    gives: str
    quick: bool
    command: str


class JobWanted(Said):
    """changes: `key=value`, such as "steps=300"; name: of the run's folder, a free one unless given."""

    recipe: str = Field(max_length=80)
    changes: list[str] = Field(default_factory=list, max_length=64)
    name: str | None = Field(default=None, max_length=80)
    quick: bool = False


class Job(Said):
    """A run that was started from the page. It goes on without page and server, and is found again by its files.

    state    starting: no figures since it was started; stopping: it was told to, and is saving; failed: see `error`
    step     updates made, of `steps` in all; None while that is not known. `stage`: "first" while a first stage trains
    figures  the newest line of metrics: loss, rate, norm, or those of a validation
    started  when, in seconds since 1970; active: when it last wrote something
    model    its id among the models, once it has saved weights
    error    why it failed, or what went wrong behind its end
    """

    name: str
    recipe: str
    changes: list[str]
    quick: bool
    state: State
    step: int | None
    steps: int | None
    stage: Literal["first"] | None
    figures: dict[str, float | None]
    started: float
    active: float
    folder: str
    command: str
    model: str | None
    error: str | None


class JobTold(Job):
    """A job with the last lines of its log."""

    log: list[str]


class Jobs(Said):
    """`limit` jobs run at a time; `refusal` says why none can be started now."""

    recipes: list[RecipeCard]
    jobs: list[Job]
    limit: int
    refusal: str | None


class MetricLines(Said):
    """Lines of metrics from a place on. Ask again with `after` = `next` and the same `mark`.

    again  the lines do not follow those that were asked for (the run went back to its last state): forget the earlier
    more   there are more already: ask at once
    """

    lines: list[dict[str, float | None]]
    next: int
    mark: str
    again: bool
    more: bool


class SampleTold(Said):
    """One example of the validation part and what the saved weights say of it. `picture` is a data URL."""

    given: str
    picture: str | None = None
    truth: str | None
    said: str
    probability: float | None = None
    right: bool | None


class Samples(Said):
    """Always the same examples. `note` says why there are none; `saved`: when the weights were (since 1970)."""

    samples: list[SampleTold]
    part: str | None
    saved: float | None
    note: str | None = None


class RunCard(Said):
    """A run that has a run.yaml: what it is and what it gave.

    name      its name here; model: its id among the models, None before it has weights
    run       what its run.yaml calls it: a recipe's name, or model and data
    figures   by part and name: `test/accuracy`; empty before it is finished
    curves    names of the figures in its metrics
    problem   why it can't be read
    """

    name: str
    model: str | None
    run: str
    family: str | None
    task: str | None
    data: str | None
    folder: str
    finished: bool
    steps: int | None
    seconds: float | None
    figures: dict[str, float]
    curves: list[str]
    problem: str | None = None


class CurveTold(Said):
    """points: (step, value) in order; each is the mean of `each` lines of metrics."""

    points: list[tuple[float, float]]
    each: int


class RunMetrics(Said):
    name: str
    curves: dict[str, CurveTold]


class StepWanted(Said):
    """One update, opened.

    at      a saved state to open it at, one of `states` that the answer lists; 0: the weights that the run began with.
            Unless given, the newest behind which the run still had an update to make
    batch   number of the batch, the one that the run itself used unless given
    weight  name of the weight to show; rows, columns: which of it, as a:b, at most 64 of each
    """

    at: int | None = Field(default=None, ge=0)
    batch: int | None = Field(default=None, ge=0, le=10**9)
    weight: str | None = Field(default=None, max_length=300)
    rows: str | None = None
    columns: str | None = None


class Wanted(Said):
    """What is learnt at a place (of `target` where there is one, else of `tokens`), or of the whole: place None."""

    place: int | None
    text: str
    share: float = 1.0


class BatchRow(Said):
    """A row of a batch as the model reads it. `target`: what a decoder reads; `picture`: a data URL."""

    picture: str | None = None
    tokens: list[str] = Field(default_factory=list)
    target: list[str] = Field(default_factory=list)
    wanted: list[Wanted]


class BatchTold(Said):
    """`number`: of the first batch of the update; `count`: over how much the loss is a mean (pictures, tokens)."""

    number: int
    batches: int
    rows: int
    count: int
    shown: list[BatchRow]


class WeightNorms(Said):
    """Norms of a weight, of its gradient before clipping, and of what the update added to it; how it is moved."""

    name: str
    shape: list[int]
    weight: float
    gradient: float
    update: float
    rate: float
    decay: float
    method: str


class LayerNorms(Said):
    """The same over all weights of a layer: "input", "decoder.blocks.0", "output" ..."""

    layer: str
    weight: float
    gradient: float
    update: float


class AdamShown(Said):
    """What AdamW remembers of the same cells, this update's gradient g (clipped) included.

    first, second  m = b1 m + (1-b1) g and v = b2 v + (1-b2) g*g, with (b1, b2) = betas
    count          updates that they hold: both are divided by 1 - beta**count before they are used
    """

    betas: tuple[float, float]
    eps: float
    count: int
    first: list[list[float]]
    second: list[list[float]]


class WeightShown(Said):
    """Rows r0 to r1 and columns c0 to c1 of one weight: after = before + update. A vector is a matrix of one row.

    adam  where AdamW moves this weight
    """

    name: str
    rows: int
    columns: int
    slice: tuple[int, int, int, int]
    before: list[list[float]]
    gradient: list[list[float]]
    update: list[list[float]]
    after: list[list[float]]
    adam: AdamShown | None


class StepTold(Said):
    """One update of a run, computed by the run's own task, optimiser and schedule on a copy. Nothing is saved.

    own         whether the run itself made, or will make, exactly this update
    loss        mean over the batch before the update; loss_after: of the same batch, with the same dropout, behind it
    rate        the highest rate times the schedule's factor
    norm        of all gradients together; clip: the largest that is let through; clipped: by what they were multiplied
    """

    run: str
    at: int
    steps: int
    states: list[int]
    own: bool
    batch: BatchTold
    loss: float
    loss_after: float
    figures: dict[str, float]
    rate: float
    factor: float
    norm: float
    clip: float | None
    clipped: float
    optimiser: str
    schedule: str
    layers: list[LayerNorms]
    weights: list[WeightNorms]
    shown: WeightShown
