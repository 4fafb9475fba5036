"""`clearhead`: the commands, and what happens when one of them fails."""

import sys

import typer

from ..errors import ClearheadError
from . import convert, embed, export, models, similar, trace

app = typer.Typer(
    name="clearhead",
    help="Transformers that you can train, run and see through.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("models")(models.command)
app.command("trace")(trace.command)
app.command("embed")(embed.command)
app.command("similar")(similar.command)
app.command("convert")(convert.command)
app.command("export")(export.command)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 something failed, 2 the input was wrong, 130 interrupted."""
    try:
        app()
    except ClearheadError as mistake:
        print(f"clearhead: {mistake}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough, as in `clearhead trace | head`
        sys.exit(0)
