"""The table of a BERT: an encoder that reads both ways, and the heads of its tasks."""

import inspect

from ...models.bert import BERT, PARTS, MaskedWords
from ...tasks.answer import best_spans
from ...tasks.classify import verdict
from ...tasks.fill import fill
from ..schema import Matrix, Node, Step
from .block import blocks, stack_result
from .feed_forward import CALLED, FORMULAS
from .head import chosen, class_names, classes, is_measure, probabilities, words
from .making import Maker, Part, plus_bias
from .norm import norm
from .source import code, tapped
from .text_input import text_input

NO_DECODER = "no decoder follows: the paper's encoder is read by one"
FOLLOWS = ("follows", "does not follow")
SPAN = ("starts", "ends")


def parts(make: Maker) -> list[Part]:
    begin = text_input(make, "input", "tokens", "learned")
    wanted = PARTS[make.model.config.task]
    heads = [HEADS[name](make) for name in HEADS if name in wanted]
    return [begin, *blocks(make, "encoder", "tokens"), *heads]


def _pooler(make: Maker) -> Part:
    whole = stack_result(make, "encoder", "tokens")
    first = make.step(
        "pooler",
        "first",
        short="[CLS]",
        title="The row of the first token",
        announced="the first token's row is taken for the whole text",
        formula="c = X_0",
        says="Of all rows only the first is taken, the one of [CLS]. "
        "It has looked at every other token in every block, and it stands for the whole text.",
        departs=[NO_DECODER],
        operation="pool",
        operands=[whole],
        function="first",
        result=make.matrix("derived:encoder.first", "c", "the row of [CLS]", "one"),
        code=code(BERT.pooled, "hidden[:, 0]"),
    )
    operands = [first.result, *make.factors("pooler", "W_C", "the pooler's matrix")]
    product = make.step(
        "pooler",
        "product",
        short="W_C",
        title="The pooler's product",
        announced="that row is multiplied by the pooler's matrix",
        formula=r"u = c\, W_C" + plus_bias(operands),
        says="The row of [CLS] goes through one more linear layer. "
        "Pre-training teaches it to tell whether one sentence follows another.",
        operation="product",
        operands=operands,
        result=make.matrix("derived:pooler.product", "u", "the product", "one"),
        code=code(BERT.pooled, "self.pooler"),
    )
    steps = [first, product, _pooled(make, product.result)]
    return Part(_node("pooler", "Pooler", "1 row"), steps)


def _pooled(make: Maker, x: Matrix) -> Step:
    return make.step(
        "pooler",
        "pooled",
        short="tanh",
        title="The text as one vector",
        announced="tanh presses every feature between -1 and 1",
        formula=r"z = \tanh(u)",
        says="tanh presses every feature between -1 and 1. What comes out is the whole text as one vector.",
        operation="activation",
        operands=[x],
        function="tanh",
        result=make.site("pooled", "z", "the text as one vector", "one"),
        code=tapped(BERT.pooled, "pooled"),
    )


def _masked_words(make: Maker) -> Part:
    part, kind = "masked_words", make.model.config.activation
    x = stack_result(make, "encoder", "tokens")
    operands = [x, *make.factors("masked_words.transform", "W_T", "one more matrix")]
    projected = make.step(
        part,
        "projected",
        short="W_T",
        title="One more product",
        announced="every row goes through one more layer before words are guessed",
        formula=r"T = X\, W_T" + plus_bias(operands),
        says="Every row goes through one more linear layer before it is compared with words. "
        "So the encoder's rows need not be word vectors themselves.",
        departs=["one more layer before the scores: the paper has none", NO_DECODER],
        operation="product",
        operands=operands,
        result=make.site("masked_words.projected", "T", "after one more matrix", "tokens"),
        code=tapped(MaskedWords, "projected"),
    )
    hidden = make.step(
        part,
        "hidden",
        short=CALLED[kind].partition(" ")[0],
        title="After the non-linearity",
        announced="the non-linearity acts on every cell",
        formula="T' = " + FORMULAS[kind].format(x="T"),
        says=f"{CALLED[kind]} acts on each cell by itself. It is the same non-linearity as in the feed-forward layers.",
        operation="activation",
        operands=[projected.result],
        function=kind.replace("-", "_"),
        result=make.site("masked_words.hidden", "T'", "after the non-linearity", "tokens"),
        code=tapped(MaskedWords, "hidden"),
    )
    normed = norm(make, part, "masked_words.norm", hidden.result, "N")
    return Part(
        _node(part, "Masked words", str(make.model.config.vocab)),
        [projected, hidden, normed, *_words(make, normed.result)],
    )


def _words(make: Maker, x: Matrix) -> list[Step]:
    tied = make.model.config.tied
    weight = "weight:input.tokens.T" if tied else "weight:masked_words.table.T"
    tap, bias = tapped(BERT._words, "logits"), "weight:masked_words.bias"
    logits = words(make, "masked_words", x, weight, tied=tied, tap=tap, bias=bias)
    shares = probabilities(make, "masked_words", logits.result)
    says = (
        "At every place the most probable word is taken; where [MASK] stands, it fills the blank. "
        "At the other places the model mostly repeats the word that it sees."
    )
    return [
        logits,
        shares,
        chosen(
            make,
            "masked_words",
            "filler",
            shares.result,
            "filler",
            says,
            code(inspect.getmodule(fill), "probabilities.topk"),
        ),
    ]


def _next_sentence(make: Maker) -> Part:
    z = make.site("pooled", "z", "the text as one vector", "one")
    tap = tapped(BERT.follows, "next_sentence")
    logits = classes(make, "next_sentence", z, "next_sentence", tap, site="next_sentence", names=FOLLOWS)
    shares = probabilities(make, "next_sentence", logits.result)
    says = (
        "The larger of the two probabilities says whether the second sentence follows the first. "
        "In training half of the pairs were true neighbours and half were put together at random."
    )
    steps = [logits, shares, chosen(make, "next_sentence", "answer", shares.result, "answer", says)]
    return Part(_node("next_sentence", "Next sentence", "2"), steps)


def _output(make: Maker) -> Part:
    """Classes of the text, or of each token where there is no pooler."""
    pooled = "pooler" in PARTS[make.model.config.task]
    x = make.site("pooled", "z", "the text as one vector", "one") if pooled else stack_result(make, "encoder", "tokens")
    logits = classes(make, "head", x, "output", tapped(BERT._classes, "logits"), names=class_names(make))
    steps = [logits] if is_measure(make) else [logits, *_class(make, logits.result)]
    return Part(_node("head", "Classes", str(make.model.config.num_classes)), steps)


def _class(make: Maker, logits: Matrix) -> list[Step]:
    shares = probabilities(make, "head", logits)
    says = (
        "The most probable class is the answer. "
        "How far its probability lies above the others says how sure the model is, not whether it is right."
    )
    return [shares, chosen(make, "head", "class", shares.result, "class", says, code(verdict, "topk"))]


def _span(make: Maker) -> Part:
    """Where an answer starts and ends: two scores a token, each a softmax over the places."""
    x = stack_result(make, "encoder", "tokens")
    logits = classes(make, "head", x, "span", code(BERT.head, 'tap("logits", self.span'), names=SPAN)
    turned = make.site("logits.T", "Lᵀ", "a row for starts, a row for ends", "one", "tokens", row_labels=SPAN)
    shares = probabilities(make, "head", turned)
    says = (
        "The most probable place to start and the most probable place to end are taken. "
        "The task then prefers the pair with the best sum of scores that ends no sooner than it starts."
    )
    steps = [logits, shares, chosen(make, "head", "span", shares.result, "span", says, code(best_spans, "argsort"))]
    return Part(_node("head", "Answer", "start, end"), steps)


def _node(part: str, title: str, shape: str) -> Node:
    return Node(id=part, title=title, shape=shape, part=part)


HEADS = {
    "masked_words": _masked_words,
    "pooler": _pooler,
    "next_sentence": _next_sentence,
    "output": _output,
    "span": _span,
}
