"""Language models, translators and their kin, from scratch."""

from dataclasses import replace

from ..train.corruption import CorruptionSpec
from ..train.language import LanguageSpec
from ..train.loop import Run
from ..train.masked import MaskedSpec
from ..train.optimiser import Optimiser
from ..train.settings import Settings
from ..train.task import Batching
from ..train.translation import TranslationSpec

NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
OTHERS = ("ne", "de", "fr", "es", "hi")
DATES = {"directions": [*(f"{language}>en" for language in OTHERS), *(f"en>{language}" for language in OTHERS)]}
FAST = Optimiser(name="muon", rate=5e-3, adam_rate=3e-3, weight_decay=0.01, muon_dtype="float32")
T5_FAST = replace(FAST, adam_rate=0.02)  # T5's table starts fifty times as wide as others: small steps don't move it
SMALL_T5 = ("t5-small", {"width": 128, "layers": 2, "heads": 4, "head_width": 32, "ff": 256, "dropout": 0.0})
FIRST = "first"  # stands for the folder of a first stage until it is there


def gpt_letters() -> Run:
    """gpt-nano learns to sort six letters from three quarters of all 729 words.

    Command: clearhead train gpt-letters
    Costs: 18 s on two cores
    Gives: 99.3% of the 182 test words sorted right (mean of seeds 0, 1, 2: 99.5, 99.5, 98.9)
    """
    settings = Settings(
        steps=1200,
        batching=Batching(size=64),
        optimiser=Optimiser(rate=3e-3, weight_decay=0.1),
        warmup=100,
        validate_every=400,
    )
    return Run("gpt-letters", LanguageSpec(model="gpt-nano", data="letters"), settings)


def translate_dates() -> Run:
    """A small encoder-decoder turns dates from one language into another, letter by letter: English and five others.

    Command: clearhead train translate-dates
    Costs: 134 s on two cores
    Gives: 99.9% of 1,839 unseen dates exact (mean of seeds 0, 1, 2: 99.95, 99.95, 99.84)
    """
    spec = TranslationSpec(
        model="transformer-tiny",
        fields={"width": 96, "layers": 2, "norm": "pre", "dropout": 0.0, "context": 128},
        data="dates",
        options=DATES,
        tokenizer="characters",
        written=200,
    )
    settings = Settings(
        steps=2200,
        batching=Batching(size=1024),
        optimiser=FAST,
        warmup=50,
        validate_every=1100,
    )
    return Run("translate-dates", spec, settings)


def gpt_python() -> Run:
    """A small GPT learns Python from the interpreter's own standard library, split by file, and completes code.

    Command: clearhead train gpt-python
    Costs: 250 to 265 s on two cores
    Gives: 1.877 bits per byte on unseen files (1.878, 1.874, 1.878 with seeds 0, 1, 2), a counting 5-gram 2.084
    """
    spec = LanguageSpec(
        model="gpt2",
        fields={"width": 192, "layers": 4, "heads": 6, "context": 256, **NO_DROPOUT},
        data="python",
        tokenizer="bpe",
        vocabulary=4096,
        beside=5,
    )
    settings = Settings(
        steps=300,
        batching=Batching(size=16),
        optimiser=Optimiser(name="muon", rate=1e-2, adam_rate=3e-3, weight_decay=0.05, muon_dtype="float32"),
        warmup=30,
        validate_every=300,
    )
    return Run("gpt-python", spec, settings)


def bert_python() -> Run:
    """A small BERT fills masked words of the standard library and says whether two pieces of it belong together.

    Command: clearhead train bert-python
    Costs: 232 s on two cores
    Gives: 14.5% of masked words (14.8, 14.1, 14.6 with seeds 0, 1, 2; unigram 4.8, bigram 17.6), next sentence 66.4,
        67.6 and 63.5% (95% of each: 60.2 to 70.7)
    """
    spec = MaskedSpec(
        model="bert-base",
        fields={"width": 192, "layers": 4, "heads": 6, "ff": 768, "context": 128, "dropout": 0.0},
        data="python",
        vocabulary=4096,
        length=96,
    )
    settings = Settings(
        steps=500,
        batching=Batching(size=32),
        optimiser=Optimiser(name="muon", rate=1e-2, adam_rate=3e-3, weight_decay=0.05, muon_dtype="float32"),
        warmup=50,
        validate_every=500,
    )
    return Run("bert-python", spec, settings)


def t5_dates() -> Run:
    """A small T5 first learns to fill gaps in dates, then to turn them from one language into another.

    Command: clearhead train t5-dates
    Costs: 229 s on two cores, both stages
    Gives: 99.8% of 1,839 unseen dates exact (100.0, 100.0, 99.5 with seeds 0, 1, 2)
    """
    gaps = CorruptionSpec(
        model=SMALL_T5[0], fields=SMALL_T5[1], data="dates", options=DATES, tokenizer="characters", length=64
    )
    settings = Settings(
        steps=300,
        batching=Batching(size=64),
        optimiser=T5_FAST,
        warmup=50,
        validate_every=300,
    )
    return replace(_t5_dates("t5-dates"), first=Run("t5-dates-gaps", gaps, settings))


def t5_dates_alone() -> Run:
    """The same T5 and the same updates on dates, without filling gaps before: what the first stage is worth.

    Command: clearhead train t5-dates-alone
    Costs: 184 s on two cores
    Gives: 99.4% of 1,839 unseen dates exact (99.5, 99.6, 99.2 with seeds 0, 1, 2)
    """
    run = _t5_dates("t5-dates-alone")
    return replace(run, spec=replace(run.spec, model=SMALL_T5[0], fields=SMALL_T5[1], tokenizer="characters"))


def _t5_dates(name: str) -> Run:
    spec = TranslationSpec(model=FIRST, data="dates", options=DATES, written=200)
    settings = Settings(steps=1300, batching=Batching(size=2048), optimiser=T5_FAST, warmup=50, validate_every=650)
    return Run(name, spec, settings)


RECIPES = (gpt_letters, translate_dates, gpt_python, bert_python, t5_dates, t5_dates_alone)
