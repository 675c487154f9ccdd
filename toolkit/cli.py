"""Offer the toolkit on the command line: models, probe, evaluate, extract, demo.

Exit codes: 0 done, 1 it ran and found nothing right (`extract`: no call), 2 a mistake that the message explains,
130 stopped by Ctrl-C (finished replies are kept).
Not here: what the commands do; each is a few lines over the public functions.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import typer.core

from toolkit.errors import ToolkitError, UserError

INTERRUPTED = 130


class _Command(typer.core.TyperCommand):
    """Refuse an option that is given twice and takes one value: the last would win without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments of a command."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option in order:
            if order.count(option) > 1 and not (
                getattr(option, "multiple", False) or getattr(option, "is_flag", False)
            ):
                ctx.fail(f"{max(option.opts, key=len)} is given {order.count(option)} times and takes one value.")
        return super().parse_args(ctx, args)


app = typer.Typer(
    help="Prompt-based tool calling with local models: which prompt, which reading, how sure.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RunAs = Annotated[Literal["ask", "agent"], typer.Option(help="One request a case, or the whole loop (--cases runs).")]
Folder = Annotated[Path, typer.Option("--run", help="Folder for tables, recipes and the store of replies.")]


@app.command(cls=_Command)
def models(
    what: Annotated[
        Literal["list", "show", "pull", "running"], typer.Argument(help="pull and show take the NAME of a model.")
    ] = "list",
    name: Annotated[str, typer.Argument(help="Such as ollama/qwen3:4b.")] = "",
    fetch: Annotated[str, typer.Option(help="Fetch the weights of this embedded model, then list.")] = "",
) -> None:
    """List the models that can be used here, or show, pull or tell the running ones of the Ollama server."""
    from toolkit.models import list_models, load_model, pull_model, running_models, show_model

    if bool(name) != (what in ("show", "pull")):
        way = f"python -m toolkit models {what}"
        raise UserError(f"{way!r} takes no name." if name else f"Which model? Write: {way} ollama/NAME")
    if what == "running":
        typer.echo("\n\n".join(map(str, running_models())) or "No model is in memory.")
        return
    if what != "list":
        typer.echo(show_model(name) if what == "show" else pull_model(name))
        return
    if fetch:
        load_model(fetch).check()
    typer.echo(_columns([(line.name, line.state, line.size_text, line.about) for line in list_models()]))


def _columns(rows: list[tuple[str, ...]]) -> str:
    """Line up cells; the last of a row may be long and does not widen its column."""
    widths = [max((len(row[i]) for row in rows if any(row[i + 1 :])), default=0) for i in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


@app.command(cls=_Command)
def evaluate(
    recipes: Annotated[list[Path], typer.Argument(help="Recipe files (TOML), or folders of them.")],
    cases: Annotated[str, typer.Option(help="Case file, the name of one in data/cases, 'demo', or 'all'.")] = "all",
    tag: Annotated[list[str] | None, typer.Option(help="Keep only cases that carry this tag; repeatable.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Use this model in place of the recipes' own; repeatable.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Times each case is asked.")] = 1,
    limit: Annotated[int, typer.Option(min=0, help="Take only the first N cases; 0 takes all.")] = 0,
    run_as: RunAs = "ask",
    run: Folder = Path("runs/evaluate"),
    mode: Annotated[
        Literal["record", "replay", "off"], typer.Option(help="Ask for what the store lacks; never ask; no store.")
    ] = "record",
) -> None:
    """Run recipes over cases and print a table of rates with intervals, and the best against the rest."""
    from toolkit.evaluation import evaluate as sweep
    from toolkit.evaluation import load_cases, load_recipes
    from toolkit.evaluation.saving import writable_folder
    from toolkit.models import Store, load_model

    found = load_recipes(recipes)
    if model:
        several = len(set(model)) > 1
        found = [
            recipe.replace(model=name, name=f"{recipe.name} {name}" if several else recipe.name)
            for name in dict.fromkeys(model)
            for recipe in found
        ]
    asked = load_cases(cases, *(tag or ()))
    if mode == "record":
        for name in dict.fromkeys(recipe.model for recipe in found):
            load_model(name).check()  # before a folder is made
    chosen, store = asked[:limit] if limit else asked, run / "replies.sqlite"
    if mode == "replay":
        Store(store, must_exist=True).close()
    folder = writable_folder(run)
    result = sweep(found, chosen, repeats, store, run=run_as, mode=mode)
    result.save(folder)
    typer.echo(result.to_text())
    if pairs := result.best_against_rest():
        typer.echo("\n" + "\n".join([*map(repr, pairs), "", result.answer()]))
    typer.echo(f"\nTables, recipes and replies are in {folder}")
    if not result.table()["judged"].sum():
        raise UserError("No reply was judged; the lines above say why.")


@app.command(cls=_Command)
def probe(
    model: Annotated[str, typer.Argument(help="Such as ollama/qwen3:4b.")],
    run: Annotated[
        Path | None, typer.Option(help="Run folder whose store keeps the answer; evaluate then warns by it.")
    ] = None,
) -> None:
    """Ask a model some thirty short questions, and print what holds of it and its server."""
    from toolkit.evaluation.probes import probe as ask
    from toolkit.evaluation.saving import writable_folder

    typer.echo(ask(model, writable_folder(run) / "replies.sqlite" if run else None))


@app.command(cls=_Command)
def extract(
    file: Annotated[Path | None, typer.Argument(help="File with the reply; standard input where left out.")] = None,
    tools: Annotated[
        Path | None, typer.Option(help="JSON file: a list of tools (name, description, parameters).")
    ] = None,
    protocol: Annotated[str, typer.Option(help="'auto', a protocol or a call syntax.")] = "auto",
    form: Annotated[Literal["json", "table"], typer.Option("--format", help="How to print them.")] = "json",
) -> None:
    """Read the tool calls out of a model's reply; exits with 1 where there is none."""
    from toolkit.extraction import extract as read
    from toolkit.prompting.protocols import list_protocols, load_protocol
    from toolkit.traces.json_text import parsed, read_text
    from toolkit.traces.text import printable_json

    known: Any = protocol
    if protocol in list_protocols() or Path(protocol).is_dir():
        known = load_protocol(protocol)
    try:
        reply = (file.read_bytes() if file else sys.stdin.buffer.read()).decode("utf-8", "replace")
    except OSError as error:
        raise UserError(f"Cannot read {str(file)!r}: {error.strerror}.") from None
    offered: Any = parsed(read_text(tools), repr(str(tools))) if tools else None
    if isinstance(offered, dict):
        offered = offered.get("tools", [offered])
    found = read(reply, tools=offered, protocol=known)
    as_text = printable_json(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    typer.echo(as_text if form == "json" else _call_table(found))
    raise typer.Exit(0 if found.calls else 1)


def _call_table(found: Any) -> str:
    from toolkit.traces.text import printable

    lines = [f"status: {found.status}"]
    for call in found.calls:
        how = f"{call.syntax}, {call.confidence}" + (f", {' '.join(call.repairs)}" if call.repairs else "")
        lines.append(
            f"call    {call.tool_name} {json.dumps(call.arguments, ensure_ascii=False)}  ({how}; at {call.span})"
        )
    lines += [f"no call {item.reason}: {item.detail}  ({item.syntax}; at {item.span})" for item in found.rejected]
    lines += [f"text    {line}" for line in found.text.strip().split("\n")]
    return "\n".join(map(printable, lines))  # a model wrote them


@app.command(cls=_Command)
def demo(
    model: Annotated[str, typer.Option(help="Model to evaluate.")] = "embedded/smollm2-135m",
    run: Folder = Path("runs/demo"),
    cases: Annotated[str, typer.Option(help="Case file, name, or 'all'.")] = "demo",
    tag: Annotated[str, typer.Option(help="Keep only cases with this tag.")] = "",
    recipes: Annotated[list[Path] | None, typer.Option(help="Recipe files or folders; by default four.")] = None,
    run_as: RunAs = "ask",
    recording: Annotated[str, typer.Option(help="Answer from this JSONL of recorded replies, without a model.")] = "",
) -> None:
    """Evaluate a model: run the batch notebook through papermill and print its table."""
    from toolkit.evaluation.batch import run_demo

    chosen = [str(path.resolve()) for path in recipes or ()]
    parameters = {"model": model, "recipes": chosen, "cases": cases, "tag": tag, "run_as": run_as}
    typer.echo(run_demo(run, {**parameters, "recording": recording}))


def main() -> None:
    """Run the command line and end with its exit code; a user's mistake prints one message and no traceback."""
    warnings.formatwarning = lambda message, *_, **__: f"Note: {message}\n"
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # newer typer turns Ctrl-C into this code
            raise KeyboardInterrupt
        sys.exit(code if isinstance(code, int) else 0)
    except (KeyboardInterrupt, typer.Abort):
        print("\nStopped. Finished replies are kept; run the same command again to go on.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except ToolkitError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    except _usage_error() as error:
        error.show()
        sys.exit(error.exit_code)


def _usage_error() -> Any:
    """Return the root of usage errors; newer typer brings its own copy of click."""
    return next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
