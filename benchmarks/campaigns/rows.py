"""The rows of tokens that a campaign's general stages learn from: made once, carried without the text."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from campaigns.places import Places, Say
from campaigns.table import Schedule
from tenfold.distillation.stage import Stage
from tenfold.errors import TenfoldError
from tenfold.experiments.bench import safe
from tenfold.pipeline import tokenizer_of
from tenfold.records import read_json, write_json
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


def corpora(places: Places) -> Path:
    folder = places.work / "corpora"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
