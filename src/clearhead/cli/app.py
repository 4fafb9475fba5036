"""`clearhead`: the commands, and what happens when one of them fails."""

import sys
from typing import Any

import typer

from ..errors import ClearheadError
from . import (
    answer,
    bench,
    classify,
    complete,
    convert,
    data,
    embed,
    explain,
    export,
    fill,
    generate,
    models,
    similar,
    studio,
    trace,
    train,
    translate,
)

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
app.command("explain")(explain.command)
app.command("studio")(studio.command)
app.command("train")(train.train)
app.command("finetune")(train.finetune)
app.command("eval")(train.evaluate)
app.command("generate")(generate.command)
app.command("translate")(translate.command)
app.command("complete")(complete.command)
app.command("fill")(fill.command)
app.command("classify")(classify.command)
app.command("answer")(answer.command)
app.command("embed")(embed.command)
app.command("similar")(similar.command)
app.command("convert")(convert.command)
app.command("export")(export.command)
app.command("bench")(bench.command)
app.add_typer(data.app, name="data")

USAGE_ERROR: Any = typer.BadParameter.__base__  # click's UsageError, wherever this typer keeps it


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 something failed, 2 the input was wrong, 130 interrupted."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except ClearheadError as mistake:
        fail(str(mistake))
    except USAGE_ERROR as mistake:
        path = mistake.ctx.command_path if mistake.ctx is not None else "clearhead"
        said = mistake.format_message()  # nothing where no command was named: the help stands there already
        fail(f"{said} (`{path} --help` shows how)" if said else "name a command")
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough, as in `clearhead trace | head`
        sys.exit(0)


def fail(message: str) -> None:
    print(f"clearhead: {message}", file=sys.stderr)
    sys.exit(2)
