"""evaluate: scores of models on labelled tasks."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from tenfold.cli.common import Json, Seed, app, out_console, print_json, progress
from tenfold.cli.tasking import DataDir, Kind, LabelColumn, TextColumn, task_settings
from tenfold.errors import TenfoldError


@app.command()
def evaluate(
    out: Annotated[str, typer.Argument(help="A model, or a folder with models as TASK, TASK/seed-K or seed-K.")],
    task: Annotated[
        str | None, typer.Option(help="GLUE tasks, sst2,mrpc,rte ..., or names of OUT's subfolders; default: all of OUT's.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Score so many models of each task; default: all.")] = None,
    teacher: Annotated[str | None, typer.Option(help="What OUT was taught by: a folder like OUT, or one model.")] = None,
    baseline: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER to compare with; may be repeated.")] = None,
    data_dir: DataDir = None,
    dev: Annotated[str | None, typer.Option(help="Own rows to score on: CSV, TSV, JSONL, Parquet or datasets:NAME.")] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    kind: Kind = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Score OUT beside its floors, teacher and baselines, and write OUT/scores.json.

    Example: tenfold evaluate out --task sst2,mrpc,rte,stsb,cola --seeds 3
    """
    from tenfold.evaluation.scoring import evaluate_folder
    from tenfold.tasks import parse_task

    more = task_settings(None, data_dir, None, dev, text_column, label_column, kind=kind) or {}
    names = [name.strip() for name in task.split(",") if name.strip()] if task else []
    specs = [parse_task({**more, "task": name}) for name in names] or ([parse_task(more)] if more else None)
    with progress(as_json) as say:
        record = evaluate_folder(out, specs, teacher, _baselines(baseline or []), say, seeds=seeds, seed=seed or 0)
    if as_json:
        print_json(record)
        return
    print_scores(record)
    out_console.print(f"{out}/scores.json holds all of this, with hashes of models and rows")


def _baselines(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, separator, folder = text.partition("=")
        if not separator or not name or not folder or name in found:
            raise TenfoldError(f'--baseline takes NAME=FOLDER, each name once, got "{text}"')
        found[name] = folder
    return found


def print_scores(record: Mapping[str, Any]) -> None:
    """What scores.json holds, warnings last, where one sees them."""
    out_console.print(_scores_table(record))
    if any(found["against"] for _, _, found in _splits(record)):
        out_console.print(_rivals_table(record))
    for name, entry in record["averages"].items():
        kept = "".join(
            f", {each['name']} {each['mean']:.1f}, retention {_share(each['retention'])}" for each in entry["against"]
        )
        out_console.print(f"average {name}: {entry['mean']:.1f}{kept} ({entry['title']})")
    for task, split, found in _splits(record):
        for text in found["warnings"]:
            out_console.print(f"warning: {task} {split}: {text}", style="bold red", markup=False)


def _splits(record: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [(task, split, found) for task, entry in record["tasks"].items() for split, found in entry["splits"].items()]


def _scores_table(record: Mapping[str, Any]) -> Table:
    table = Table(title="scores (floor: the best answer that does not look at the text)", title_justify="left")
    for column in ("task", "split", "rows", "metric", "score", "seeds", "floor"):
        table.add_column(column, justify="left" if column in ("task", "split", "metric") else "right")
    for task, split, found in _splits(record):
        for metric in record["tasks"][task]["metrics"]:
            spread = f" ± {found['std'][metric]:.1f}" if found["std"] else ""
            floor, mean = found["floor"]["scores"][metric], found["mean"][metric]
            numbers = (metric, f"{mean:.1f}{spread}", str(len(found["seeds"])), f"{floor:.1f}")
            table.add_row(task, split, f"{found['rows']:,}", *numbers)
    return table


def _rivals_table(record: Mapping[str, Any]) -> Table:
    """retention: score / theirs. difference: in points, with a 95% interval over rows."""
    table = Table(title="on the same rows (paired bootstrap, 95% interval of the difference)", title_justify="left")
    for column in ("task", "split", "against", "theirs", "retention", "difference", "interval", "p"):
        table.add_column(column, justify="left" if column in ("task", "split", "against") else "right")
    for task, split, found in _splits(record):
        metric = record["tasks"][task]["metrics"][0]
        for each in found["against"]:
            table.add_row(
                task, split, each["name"], f"{each['scores'][metric]:.1f}", _share(each["retention"]),
                f"{each['difference']:+.1f}", f"{each['low']:+.1f} to {each['high']:+.1f}", f"{each['p']:.4f}",
            )  # fmt: skip
    return table


def _share(retention: float | None) -> str:
    return "-" if retention is None else f"{retention:.1%}"
