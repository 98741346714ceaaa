"""The options that name a task: the same for every verb that has one."""

from typing import Annotated, Any

import typer

TaskName = Annotated[
    str | None, typer.Option("--task", help="A GLUE task: sst2, mrpc, rte, stsb, cola, mnli, qqp, qnli, wnli.")
]
DataDir = Annotated[str | None, typer.Option(help="GLUE in its official layout; default: the hub, through datasets.")]
Train = Annotated[str | None, typer.Option(help="Own rows: CSV, TSV, JSONL, Parquet or datasets:NAME[:CONFIG][:SPLIT].")]
Dev = Annotated[str | None, typer.Option(help="Own rows to measure on; default: a part of --train.")]
TextColumn = Annotated[list[str] | None, typer.Option("--text-column", help="Its text; give it twice for pairs.")]
LabelColumn = Annotated[str | None, typer.Option(help="Its label.")]
Kind = Annotated[
    str | None, typer.Option(help="classification, multi_label, regression or embedding; default: seen from the labels.")
]


def task_settings(
    task: str | None,
    data_dir: str | None,
    train: str | None,
    dev: str | None,
    text_column: list[str] | None,
    label_column: str | None,
    kind: str | None = None,
    **more: Any,
) -> dict[str, Any] | None:
    """The keys of a TaskSpec that were given, with `more` (a seed); None where none was."""
    given = {
        "task": task, "data_dir": data_dir, "train": train, "dev": dev, "text_columns": text_column or None,
        "label_column": label_column, "kind": kind,
    }  # fmt: skip
    found = {key: value for key, value in given.items() if value is not None}
    return {**found, **{k: v for k, v in more.items() if v is not None}} if found else None
