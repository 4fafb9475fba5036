"""Attention as steps: queries, keys and values, who looks at whom, the values mixed, heads side by side, W_O."""

from collections.abc import Sequence

from ...layers import SelfAttention
from ..schema import Matrix, Step
from .looking import Layer, Looking
from .making import Maker, plus_bias
from .scores import OPS, weighing
from .source import code, tapped

CONVENTION = (
    "One deck writes Q = W^Q X, another X W_Q. Here rows are tokens, so it is X W_Q throughout. "
    "And a token is not split into parts, as a deck has it: it is projected whole, then the projection is split."
)
VALUES = "A deck says that V is d x d_v. V has one row a token, n x d_v; it is W_V that is d x d_v."
SOURCE = (
    'A deck says "queries from Source, Key, Values from Target". It is the other way round: the queries are the '
    "target's, keys and values the source's, and the weights are target x source."
)
CONCAT = "A deck gives three heads of 7 x 3 as 21 x 3. Side by side they are 7 x 9: the tokens stay seven rows."

UNWRITTEN_BIAS = "a bias is added: the paper writes none in attention"
TURN = r"X'_i = X_i \odot \cos(i\,\theta) + \mathrm{partner}(X_i) \odot \sin(i\,\theta)"
TURNED = "positions turn queries and keys: the paper adds them to the input"


def attention(make: Maker, at: Looking) -> list[Step]:
    """From what a layer reads to what it adds to the stream."""
    module = make.model.get_submodule(at.path)
    assert isinstance(module, Layer)
    steps = [_projection(make, at, module, part) for part in ("query", "key", "value")]
    query, key, value = (step.result for step in steps)
    if isinstance(module, SelfAttention) and module.rotary is not None:
        turned = [_turned(make, at, part) for part in ("query", "key")]
        query, key = (step.result for step in turned)
        steps += turned
    steps += weighing(make, at, module, query, key)
    steps.append(_weighted(make, at, steps[-1].result, value))
    return [*steps, *_joined(make, at, module, steps[-1].result)]


SAID = {
    "query": (
        "queries",
        "Q",
        "Every row is multiplied by W_Q: the query says what this token looks for. "
        "Each head has its own columns of W_Q and so asks its own question of the whole row.",
    ),
    "key": (
        "keys",
        "K",
        "Every row is multiplied by W_K: the key says what this token offers to those who look. "
        "A query that points the same way as a key will find it.",
    ),
    "value": (
        "values",
        "V",
        "Every row is multiplied by W_V: the value is what this token hands over when it is looked at. "
        "How much of it arrives where is decided by queries and keys, not by the value itself.",
    ),
}


ACROSS = {
    "query": "The target's rows are multiplied by W_Q: the query says what this word looks for in the source. "
    "Only queries are made from the target, so there is one row of answers for each of its words.",
    "key": "The encoder's rows are multiplied by W_K: the key says what this word of the source offers. "
    "They are made once for a source, however many words of the target ask.",
    "value": "The encoder's rows are multiplied by W_V: the value is what a word of the source hands over. "
    "This is the only way in which the target learns of the source.",
}


def _projection(make: Maker, at: Looking, module: Layer, part: str) -> Step:
    plural, name, says = SAID[part]
    x = at.x if part == "query" else at.memory
    turned = part != "value" and getattr(module, "rotary", None) is not None
    operands = [x, *make.factors(f"{at.path}.{part}", f"W_{name}", f"makes {plural} of rows")]
    key = f"derived:{at.path}.{part}.straight" if turned else f"site:{at.path}.{part}"
    return make.step(
        at.part,
        part,
        short=name,
        title=plural.capitalize(),
        announced=f"{plural} are made from the rows",
        formula=rf"{name} = {x.name}\, W_{name}" + plus_bias(operands),
        says=ACROSS[part] if at.crossing else says,
        slip=_projection_slip(at, part),
        departs=[UNWRITTEN_BIAS if len(operands) > 2 else None, *_head_departures(at, module, part)],
        operation="product",
        operands=operands,
        result=make.matrix(key, name, f"{plural}, a row a token", x.rows.of),
        code=code(SelfAttention, "self.qkv(x)") if turned else tapped(type(module), part),
    )


def _projection_slip(at: Looking, part: str) -> str | None:
    if part == "value":
        return VALUES
    if at.crossing:
        return SOURCE
    return CONVENTION if part == "query" else None


def _head_departures(at: Looking, module: Layer, part: str) -> list[str | None]:
    heads = module.heads
    groups, wide = heads.count // heads.kv_count, heads.count * heads.key
    shared = f"{groups} heads share one set of {part}s: in the paper each has its own"
    width = f"the heads together are {wide} wide and the stream {at.x.columns.size}: in the paper both are equal"
    return [
        shared if part != "query" and groups > 1 else None,
        width if part == "query" and wide != at.x.columns.size else None,
    ]


def _turned(make: Maker, at: Looking, part: str) -> Step:
    plural, name, _ = SAID[part]
    site = f"{at.path}.{part}"
    rows = at.rows if part == "query" else at.keys
    return make.step(
        at.part,
        f"turned_{part}",
        short=f"turn {name}",
        title=f"{plural.capitalize()}, turned by their place",
        announced=f"{plural} are turned by an angle that grows with their place",
        formula=TURN.replace("X", name),
        says="Features are taken in pairs, and each pair is turned by an angle that grows with the place of the token. "
        "The product of a query and a key then depends on how far apart they stand.",
        departs=[TURNED],
        operation="add",
        operands=[
            make.matrix(f"derived:{site}.along", f"{name} cos", "each feature times the cosine of its angle", rows),
            make.matrix(f"derived:{site}.across", f"± {name} sin", "its partner times the sine, with its sign", rows),
        ],
        result=make.site(site, name, f"{plural}, turned", rows),
        code=tapped(SelfAttention, part),
    )


def _weighted(make: Maker, at: Looking, weights: Matrix, value: Matrix) -> Step:
    return make.step(
        at.part,
        "weighted",
        short="× V",
        title="Weighted values",
        announced="the values are mixed in these shares",
        formula=r"H = A V",
        says="Every token takes from each value the share that the softmax gave it, and adds them up. "
        "A share near 1 copies one token's value, even shares give the mean of all.",
        operation="product",
        operands=[weights, value],
        result=make.site(f"{at.path}.output", "H", "what this head found for each token", at.rows),
        code=tapped(OPS, "output"),
    )


def _joined(make: Maker, at: Looking, module: Layer, found: Matrix) -> Sequence[Step]:
    count = found.heads
    concat = make.step(
        at.part,
        "concat",
        short="concat",
        title="Heads side by side",
        announced="the heads are put side by side",
        formula=rf"C = \left[\, H_1 \; \cdots \; H_{{{count}}} \,\right]" if count > 1 else "C = H_1",
        says="What the heads found stands side by side in one row for each token. "
        "Nothing is computed: the columns of one head follow those of the head before.",
        slip=CONCAT,
        operation="concat",
        operands=[found],
        result=make.site(f"{at.path}.concat", "C", "the heads side by side", at.rows),
        code=tapped(type(module).attend, "concat"),
    )
    operands = [concat.result, *make.factors(f"{at.path}.out", "W_O", "mixes the heads")]
    projected = make.step(
        at.part,
        "projected",
        short="W_O",
        title="Output projection",
        announced="W_O mixes the heads and leads back to the width of the stream",
        formula=r"Y = C\, W_{O}" + plus_bias(operands),
        says="W_O mixes what the heads found and brings it back to the width of the stream. "
        "The result is what attention has to add to each token.",
        departs=[UNWRITTEN_BIAS if len(operands) > 2 else None],
        operation="product",
        operands=operands,
        result=make.site(f"{at.path}.projected", "Y", "what attention adds", at.rows),
        code=tapped(type(module).projected, "projected"),
    )
    return [concat, projected]
