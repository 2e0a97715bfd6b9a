"""The entry point `attnroof`: lists the commands and turns errors into one message and an exit code."""

import os
import sys

import typer

from cli.commands import (
    accuracy,
    advise,
    backends,
    conformance,
    diff,
    explain,
    export,
    hw,
    ingest,
    model,
    predict,
    report,
    sglang,
    simulate,
    tune,
    validate,
)
from cli.errors import ANSWER_IS_NO, INTERRUPTED, WRONG_INPUT, AnswerIsNo, WrongInput, fail

app = typer.Typer(
    name="attnroof",
    help="Which attention backend for this model, this GPU and this traffic: predicted, then verified.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(hw.app, name="hw")
app.add_typer(model.app, name="model")
for command in (
    backends.backends,
    sglang.sglang,
    predict.predict,
    explain.explain,
    advise.advise,
    simulate.simulate,
    ingest.ingest,
    tune.tune,
    export.export,
    validate.validate,
    accuracy.accuracy,
    diff.diff,
    report.report,
    conformance.conformance,
):
    app.command()(command)


def main() -> None:
    """Run the command line; errors become one message on stderr, never a traceback."""
    try:
        app()
    except AnswerIsNo as error:
        fail(str(error))
        sys.exit(ANSWER_IS_NO)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(WRONG_INPUT)
    except (WrongInput, ValueError) as error:
        fail(str(error))
        sys.exit(WRONG_INPUT)
    except Exception as error:
        if os.environ.get("ATTNROOF_TRACEBACK"):
            raise
        fail(
            f"this is a mistake in attnroof, not in the command: {type(error).__name__}: {error}; please report it "
            "(ATTNROOF_TRACEBACK=1 shows where it happened)"
        )
        sys.exit(WRONG_INPUT)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            fail("interrupted; what `attnroof tune` measured is kept: the same command with --resume goes on")
        raise


if __name__ == "__main__":
    main()
