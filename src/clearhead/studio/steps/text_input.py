"""From a text to rows: tokens and their numbers, rows of the embedding table, places, segments, their sum."""

from ...layers import TextInput, TokenEmbedding
from ..schema import Matrix, Node, Step
from .making import Column, Maker, Of, Part, shape_of
from .norm import norm
from .positions import positions, summed
from .source import code, tapped

SLIP = (
    'A deck draws the one-hot vector of "intelligence" with its 1 at index 1. '
    "By the vocabulary on the same slide it belongs at index 5."
)
UNSCALED = "rows are not multiplied by sqrt(d): the paper does that"
SEGMENTS = "a table for the two sentences: the paper has no such rows"
NORMED = "a norm behind the sum: the paper has none here"


def text_input(
    make: Maker,
    part: str,
    rows: Of,
    kind: str,
    *,
    column: Column = None,
    half_split: bool = False,
    without: str | None = None,
) -> Part:
    """`kind`: what the config calls the positions; `without`: what a model without position rows does instead."""
    module = make.model.get_submodule(part)
    assert isinstance(module, TextInput)
    steps = [_tokens(make, part, rows), *_embedding(make, part, rows, module)]
    terms = [steps[-1].result]
    if module.positions is not None:
        tap = tapped(TextInput, "positions")
        steps.append(positions(make, part, rows, kind, tap, half_split=half_split))
        terms.append(steps[-1].result)
    if module.segments is not None:
        steps.append(_segments(make, part, rows))
        terms.append(steps[-1].result)
    missing = without if module.positions is None else None
    steps.append(summed(make, part, rows, terms, tapped(TextInput, "summed"), missing))
    if module.norm is not None:
        steps.append(norm(make, part, f"{part}.norm", steps[-1].result, "X", departs=[NORMED]))
    title = {"source": "Source", "target": "Target"}.get(part, "Input")
    return Part(Node(id=part, title=title, shape=shape_of(steps[-1].result), column=column, part=part), steps)


def _tokens(make: Maker, part: str, rows: Of) -> Step:
    return make.step(
        part,
        "tokens",
        short="tokens",
        title="Tokens and their numbers",
        announced="the text is cut into tokens",
        formula=r"\text{text} \;\to\; t_0, t_1, \dots, t_{n-1}",
        says="The text is cut into tokens, and every token has a number in the vocabulary. "
        "From here on the model sees nothing but these numbers.",
        operation="tokens",
        operands=[],
        result=_ids(make, part, rows),
        code=tapped(TextInput, "ids"),
    )


def _ids(make: Maker, part: str, rows: Of) -> Matrix:
    return make.site(f"{part}.ids", "t", "the tokens' numbers", rows, "one", colour="plain")


def _embedding(make: Maker, part: str, rows: Of, module: TextInput) -> list[Step]:
    table = make.matrix(f"weight:{part}.tokens", "W_E", "the embedding table: a row for every word", "vocabulary")
    one_hot = make.matrix(f"derived:{part}.one_hot", "O", "a 1 at the token's number", rows, "vocabulary", "share")
    embedded = make.site(f"{part}.embedded", "E", "the tokens' rows of the table", rows)
    product = make.step(
        part,
        "one_hot",
        short="one-hot",
        title="One-hot times the table is a row",
        announced="a one-hot row for each token is multiplied by the embedding table",
        formula=r"E = O\, W_{E}",
        says="A one-hot row is zero everywhere but at the token's number. "
        "Times the table it leaves exactly one row, so the product is the lookup that the next step does.",
        slip=SLIP,
        operation="product",
        operands=[one_hot, table],
        result=embedded,
        code=code(TokenEmbedding, "F.embedding"),
    )
    lookup = make.step(
        part,
        "embedding",
        short="embedding",
        title="The tokens' rows of the embedding table",
        announced="the same rows are looked up, which is how it is really done",
        formula=r"E_i = W_{E}[t_i]",
        says="Every token's number picks its row of the embedding table: one vector of d features a token. "
        "Training moves the rows of words that are used alike close together.",
        departs=[UNSCALED if module.scale == 1 else None],
        operation="lookup",
        operands=[_ids(make, part, rows), table],
        result=embedded,
        code=tapped(TextInput, "embedded"),
    )
    return [product, lookup, *([_scaled(make, part, rows, module, embedded)] if module.scale != 1 else [])]


def _scaled(make: Maker, part: str, rows: Of, module: TextInput, embedded: Matrix) -> Step:
    return make.step(
        part,
        "scaled",
        short="× √d",
        title="The rows times √d",
        announced="the rows are multiplied by √d",
        formula=rf"E' = E \sqrt{{d}} = E \sqrt{{{embedded.columns.size}}}",
        says="The rows of the table are small, because the same table also makes the scores of the words at the end. "
        "Multiplied by √d they are about as large as the positions that are added next.",
        operation="scale",
        operands=[embedded],
        factor=module.scale,
        result=make.site(f"{part}.scaled", "E'", "the rows times √d", rows),
        code=tapped(TextInput, "scaled"),
    )


def _segments(make: Maker, part: str, rows: Of) -> Step:
    ids = make.matrix(f"derived:{part}.segment_ids", "s", "0: first sentence, 1: second", rows, "one", "plain")
    return make.step(
        part,
        "segments",
        short="segments",
        title="First or second sentence",
        announced="every token gets the row of its sentence",
        formula=r"S_i = W_S[s_i]",
        says="Every token of the first sentence gets one row, every token of the second another. "
        "So the model can tell two sentences apart that it reads at once.",
        departs=[SEGMENTS],
        operation="lookup",
        operands=[ids, make.matrix(f"weight:{part}.segments", "W_S", "a row for each sentence", "one")],
        result=make.site(f"{part}.segments", "S", "the sentences' rows", rows),
        code=tapped(TextInput, "segments"),
    )
