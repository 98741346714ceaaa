"""The rows of tokens that a campaign's general stages learn from: made once, carried without the text."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import torch

from campaigns.places import Places, Say
from campaigns.table import Schedule, corpus_stage, key_of, pairs_of, start_of
from tenfold.distillation.stage import Stage
from tenfold.errors import TenfoldError
from tenfold.experiments.bench import safe
from tenfold.pipeline import tokenizer_of
from tenfold.records import read_json, write_json
from tenfold.tasks import glue_task
from tenfold.text import Corpus, build


def rows_of(places: Places, stage: Stage, schedule: Schedule, say: Say) -> Corpus:
    """WORK/corpora/NAME.json says which folder beside it holds them; where it is not there yet, they are made from the text."""
    tokenizer = tokenizer_of(places.original)
    settings = replace(stage.corpus, limit=schedule.limit)
    assert isinstance(stage.text, str)
    words = sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()
    told = {"text": stage.text, "words": words, **settings.as_dict()}
    name = f"{Path(stage.text).name.partition('.')[0]}-{settings.length}-{sha256(json.dumps(told).encode()).hexdigest()[:8]}"
    note = corpora(places) / f"{safe(name)}.json"
    held = read_json(note)
    if held is not None:
        return Corpus(corpora(places) / held["folder"])
    text = places.data / stage.text
    if not text.is_file():
        raise TenfoldError(f"the general stage learns from text, got none at {text}: give --data DIR, or carry its rows (pack)")
    corpus = build(str(text), tokenizer, settings, cache_dir=corpora(places), progress=say)
    write_json(note, {"folder": corpus.folder.name, **told})
    return corpus


def unlabelled_pairs(places: Places, row: str, task: str) -> Path | None:
    """A table of pairs of texts out of the corpus, for a task of two texts; the same for the same corpus and settings."""
    asked, columns = pairs_of(places.campaign, row), glue_task(task).task.columns
    if not asked.count or len(columns) < 2:
        return None
    corpus = rows_of(places, corpus_stage(places.campaign, row), start_of(places.campaign, row).schedule, lambda _: None)
    file = places.home / "pairs" / f"{task}-{key_of([corpus.folder.name, asked.model_dump()])}.tsv"
    if not file.is_file():
        tokenizer = tokenizer_of(places.original)
        found = list(islice(_pairs(corpus, tokenizer, asked.length), asked.count))
        if len(found) < asked.count:
            raise TenfoldError(
                f"pairs come from the rows of the general stage, got {asked.count} of {len(found)}: ask for fewer"
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"{file.name}.partial-{os.getpid()}")
        beside.write_text("\n".join("\t".join(pair) for pair in [columns, *found]) + "\n", encoding="utf-8")
        beside.replace(file)
    return file


def _pairs(corpus: Corpus, tokenizer: Any, length: int) -> Iterator[tuple[str, ...]]:
    """Of each row its two segments, or its two halves where it has one; the first tokens of each."""
    special = set(tokenizer.all_special_ids)
    for k in torch.randperm(len(corpus), generator=torch.Generator().manual_seed(0)).tolist():
        ids = corpus[k]["input_ids"].tolist()
        parts = [[*part] for inside, part in groupby(ids, lambda token: token not in special) if inside]
        if len(parts) == 1:
            half = len(parts[0]) // 2
            parts = [parts[0][:half], parts[0][half:]]
        texts = tuple(" ".join(tokenizer.decode(part[:length]).split()).replace('"', "'") for part in parts)
        if len(texts) == 2 and all(texts):
            yield texts


def corpora(places: Places) -> Path:
    folder = places.work / "corpora"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
