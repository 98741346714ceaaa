"""An ablation to its table: starts that cells share, each cell's students, scores, one row for each."""

from pathlib import Path

from tenfold.checkpoints import find, refuse_compressed
from tenfold.compression import Progress
from tenfold.distillation.running import distill_folder
from tenfold.errors import TenfoldError
from tenfold.experiments.ablation import Ablation, Variant, data_names, key_of, variants
from tenfold.experiments.bench import Bench, check_rows, safe
from tenfold.experiments.results import results, row_of, teacher_row, warnings, write_results
from tenfold.pipeline import compress_folder
from tenfold.recipe import Recipe
from tenfold.records import Record, digest, read_json, write_json
from tenfold.workflow.steps import Steps

CELL = "cell.json"


def run_ablation(model: str, out: Path, ablation: Ablation, fresh: bool = False, progress: Progress = lambda _: None) -> Record:
    """OUT/cells/NAME/TASK/seed-K, OUT/teachers/TASK and OUT/results.json, which grows with every cell that is done."""
    bench = _bench(model, out, ablation, fresh, progress)
    chosen = variants(ablation)
    records: dict[str, Record] = {}
    for number, variant in enumerate(chosen, 1):
        bench.steps.say(f"cell {number} of {len(chosen)}: {variant.name}")
        records[variant.name] = _cell(bench, variant)
        found = _results(bench, ablation, chosen, records)
        write_results(bench.steps.work, found)
    return found


def _bench(model: str, out: Path, ablation: Ablation, fresh: bool, progress: Progress) -> Bench:
    """OUT belongs to one model, its teachers and rows; cells, tasks and seeds may be added later."""
    source = find(model, weights=True)
    refuse_compressed(source)
    assert source.header is not None
    tasks = data_names(ablation)
    check_rows(tasks)
    told = {"finetune": ablation.finetune.model_dump(mode="json"), "seed": ablation.seed, "model": digest(source.header.files)}
    steps = Steps(out.resolve(), {"verb": "ablate", **told}, fresh, progress)
    return Bench(steps, model, tasks, ablation.finetune, ablation.task, ablation.seeds, ablation.seed, steps.work / "teachers")


def _cell(bench: Bench, variant: Variant) -> Record:
    start, place = str(_start(bench, variant)), place_of(variant)
    _claim(bench, variant, place)
    for task in bench.tasks:
        for k in range(bench.seeds):
            bench.teacher(task)
            if variant.finish == "distill":
                bench.distilled(start, place, task, k, variant.task)
            else:
                bench.tuned(start, place, task, k, variant.finetune)
    return bench.scored(place)


def place_of(variant: Variant) -> str:
    return f"cells/{safe(variant.name)}"


def _claim(bench: Bench, variant: Variant, place: str) -> None:
    """A cell keeps its settings: another one of the same name is refused."""
    note = bench.steps.work / place / CELL
    told, before = variant.to_dict(), read_json(note)
    if before is not None and before != told:
        raise TenfoldError(
            f"the cell {variant.name} was made with other settings, got {note}: name it otherwise, or pass --fresh"
        )
    note.parent.mkdir(parents=True, exist_ok=True)
    write_json(note, told)


def _start(bench: Bench, variant: Variant) -> Path:
    """The compressed model, after its general stage where the cell has one. Cells with the same settings share it."""
    compress, general, say = variant.compress, variant.general, bench.steps.say
    name = f"starts/{safe(compress.method or str(compress.to))}-{key_of(compress)}"
    recipe = Recipe(model=bench.model, compress=compress)
    folder = bench.steps.folder(name, lambda to: compress_folder(bench.model, to, recipe, False, say))
    if general is None:
        return folder
    taught = f"{name}-general-{key_of(general)}"
    return bench.steps.folder(taught, lambda to: distill_folder(str(folder), to, bench.model, general, progress=say))


def _results(bench: Bench, ablation: Ablation, chosen: list[Variant], records: dict[str, Record]) -> Record:
    first = next(iter(records.values()))
    by_name = {variant.name: variant for variant in chosen}
    rows = [teacher_row(bench, first)]
    for name, record in records.items():
        variant = by_name[name]
        row = row_of(bench, name, "cell", variant.title, place_of(variant), record)
        rows.append({**row, "settings": variant.to_dict()})
    left = [variant.name for variant in chosen if variant.name not in records]
    settings = ablation.model_dump(mode="json")
    return results(bench, "ablate", rows, first, title=ablation.title, settings=settings, left=left, warnings=warnings(records))
