"""Changed copies of a task's rows, as in TinyBERT and the paper: word-level, from neighbours and from a masked LM."""

from pathlib import Path
from typing import Any

from tenfold.errors import TenfoldError
from tenfold.tasks.augmentation.caching import cache_file, read_copies, write_copies
from tenfold.tasks.augmentation.copying import Copies, make_copies, usual_copies
from tenfold.tasks.augmentation.sources import Sources, choose
from tenfold.tasks.augmentation.writing import check_table, write_table
from tenfold.tasks.spec import AugmentSpec
from tenfold.tasks.task import Rows, Task
from tenfold.text.progress import Say

__all__ = ["Copies", "Sources", "augment", "augmented", "check_table", "choose", "usual_copies", "write_table"]


def augment(
    rows: Rows, task: Task, spec: AugmentSpec, tokenizer: Any, teacher: Any = None, progress: Say = lambda _: None
) -> Rows:
    """Changed copies of `rows`, unlabelled: whoever trains on them asks the teacher. Cached on disk by content.

    teacher: whose masked-LM head or input embeddings give candidates; None where GloVe or a masked LM is to do it alone.
    """
    name = "" if teacher is None else Path(getattr(teacher, "name_or_path", "") or type(teacher).__name__).name
    copies = augmented(rows, task, spec, choose(spec, tokenizer, teacher, name), progress)
    return Rows(copies.texts, (None,) * len(copies))


def augmented(rows: Rows, task: Task, spec: AugmentSpec, sources: Sources, progress: Say = lambda _: None) -> Copies:
    file = cache_file(rows, spec.copies or usual_copies(len(rows)), spec, sources)
    copies = read_copies(file)
    if copies is not None:
        progress(f"copies from the cache: {file}")
        return copies
    copies = make_copies(rows.texts, spec, sources, progress)
    if not len(copies):
        raise TenfoldError(
            f"augmentation must find words to replace, got none in the {len(rows)} rows of {task.name} for which "
            f"{sources.several.name} or {sources.single.name} has candidates: give --glove, --masked-lm or --model"
        )
    write_copies(file, copies)
    return copies
