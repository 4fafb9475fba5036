"""Options that several commands take, each with its one wording."""

from typing import Annotated

import typer

Temperature = Annotated[
    float | None, typer.Option(help="0: the best token always. Unless given: 1 with samples or a filter, else 0.")
]
TopK = Annotated[int | None, typer.Option(help="Draw from the k best tokens.")]
TopP = Annotated[float | None, typer.Option(help="Draw from the fewest tokens that reach p together.")]
MinP = Annotated[float | None, typer.Option(help="Draw from tokens at least p times as likely as the best.")]
Logprobs = Annotated[int, typer.Option(help="Show each token's log probability beside the N best.")]
SampleSeed = Annotated[int, typer.Option(help="Sample n draws with seed + n; also of --random weights.")]
Random = Annotated[bool, typer.Option("--random", help="MODEL is a name: use random weights.")]
Int8 = Annotated[bool, typer.Option("--int8", help="Weights in 8 bits; the loss of quality is shown.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
