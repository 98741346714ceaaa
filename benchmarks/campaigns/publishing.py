"""Results to what is published: summary.json, the tables of docs/results.md, curves. Only what was run is in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from campaigns.papers import PAPER_COLUMNS, paper_rows
from campaigns.places import Places
from campaigns.table import Campaign, start_of
from campaigns.tasks import TEACHERS
from tenfold.errors import TenfoldError
from tenfold.records import Record, read_json, write_json

BEGIN, END = "<!-- made by benchmarks/campaign.py table: {} -->", "<!-- end -->"


@dataclass(frozen=True)
class Line:
    """A row with what was measured of it: the records of its seeds by task, of its general stage and of its speed."""

    row: str
    cells: Mapping[str, tuple[Record, ...]]
    general: Record | None
    speed: Record | None

    def scores(self, task: str) -> list[float]:
        return [record["headline"] for record in self.cells.get(task, ()) if record["headline"] is not None]

    @property
    def failed(self) -> dict[str, list[str]]:
        """Why a task does not count, by task: one failed seed is enough."""
        found = {task: [text for record in records for text in record["failed"]] for task, records in self.cells.items()}
        return {task: texts for task, texts in found.items() if texts}


def line_of(places: Places, row: str) -> Line:
    campaign, cells = places.campaign, {}
    for task in campaign.tasks:
        found = [read_json(places.result(row, f"{task}-seed-{k}")) for k in range(campaign.seeds_of(task))]
        if kept := tuple(record for record in found if record is not None):
            cells[task] = kept
    return Line(row, cells, read_json(places.result(row, "general")), read_json(places.result(row, "speed")))


def lines_of(places: Places) -> tuple[Line, list[Line]]:
    """The teachers' and those of every row that has been scored, the largest first."""
    found = [line for line in (line_of(places, row) for row in places.campaign.rows) if line.cells]
    return line_of(places, TEACHERS), sorted(found, key=lambda line: -line.general["size"]["kept"] if line.general else 0.0)


def average(campaign: Campaign, line: Line) -> float | None:
    """Of all tasks of the campaign, each the mean of all its seeds; None where one is missing or failed."""
    whole = all(len(line.scores(task)) == campaign.seeds_of(task) for task in campaign.tasks)
    return fmean(fmean(line.scores(task)) for task in campaign.tasks) if whole and not line.failed else None


def retention(campaign: Campaign, line: Line, teacher: Line) -> float | None:
    """Average over the teacher's average. A failed student keeps nothing that could be named."""
    ours, theirs = average(campaign, line), average(campaign, teacher)
    return ours / theirs if ours is not None and theirs is not None and theirs > 0 else None


def summary(campaigns: Sequence[Campaign], results: Path) -> Record:
    """{model: {method: {retention, tasks: {task: {scores, teacher, floor}}, tokens, matrices}}}."""
    found: Record = {}
    for campaign in campaigns:
        teacher, lines = lines_of(_read(campaign, results))
        methods = {
            line.row: {
                "retention": retention(campaign, line, teacher),
                "tasks": {
                    task: {"scores": line.scores(task), "teacher": teacher.scores(task), "floor": _floor(line, teacher, task)}
                    for task in line.cells
                },
                "tokens": line.general["tokens"] if line.general else 0,
                "matrices": _size(line)["kept"],
            }
            for line in lines
        }
        if methods:
            found[campaign.name] = methods
    return found


def write_summary(campaigns: Sequence[Campaign], results: Path, to: Path) -> None:
    found = summary(campaigns, results)
    if not found:
        raise TenfoldError(f"a summary is of results, got none in {results}: run tasks first")
    write_json(to, found)


def tables(campaign: Campaign, results: Path) -> str:
    """The main table of a campaign, the paper's rows under it, failures, and the commands."""
    places = _read(campaign, results)
    teacher, lines = lines_of(places)
    columns = ["row", "Para.", "matrices kept", "bytes", "FLOPs", "speed", "tokens", *campaign.tasks, "average", "retention"]
    body = [_cells(campaign, line, teacher) for line in lines]
    seeds = ", ".join(f"{task} {campaign.seeds_of(task)}" for task in campaign.tasks)
    parts = [
        f"{_spent(teacher, lines)} Seeds: {seeds}. Floors: {', '.join(_floors(campaign, teacher))}.",
        _markdown(columns, [_teacher_cells(campaign, teacher), *body]),
    ]
    if failed := [
        f"- {line.row}, {task}: {'; '.join(dict.fromkeys(texts))}" for line in lines for task, texts in line.failed.items()
    ]:
        parts.append("Failed (no average and no retention is given):\n\n" + "\n".join(failed))
    return "\n\n".join(parts)


def write_page(campaigns: Sequence[Campaign], results: Path, page: Path) -> None:
    """Between the marks of each campaign, and of the paper; the rest of the page is as it was."""
    text = page.read_text(encoding="utf-8")
    made = {"paper": _markdown(PAPER_COLUMNS, [*paper_rows()])}
    for campaign in campaigns:
        if lines_of(_read(campaign, results))[1]:
            made[campaign.name] = tables(campaign, results)
    for name, content in made.items():
        begin = BEGIN.format(name)
        before, found, rest = text.partition(begin)
        if not found:
            raise TenfoldError(
                f"the page has a place for every campaign with results, got none for {name}: add {begin} and {END}"
            )
        text = f"{before}{begin}\n\n{content}\n\n{END}{rest.partition(END)[2]}"
    page.write_text(text, encoding="utf-8")


def plot(campaigns: Sequence[Campaign], results: Path, docs: Path) -> list[Path]:
    """docs/results-NAME.png: score against size, and against the minutes of the general stage, with the CSV of both."""
    from tenfold.plots import figure, look, save, style  # matplotlib, which a machine that only runs cells may lack

    made = []
    for campaign in campaigns:
        teacher, lines = lines_of(_read(campaign, results))
        drawn = [point for line in lines for point in _points(campaign, line, teacher)]
        if not drawn:
            continue
        with style():
            chart, axes = figure(1, 2, size=(14, 5))
            for place, (x, label) in zip(
                axes, (("kept", "share of the matrices kept"), ("minutes", "minutes of the general stage")), strict=True
            ):
                for k, task in enumerate(campaign.tasks):
                    own = sorted((p for p in drawn if p["task"] == task), key=lambda p: p[x])
                    place.plot(
                        [p[x] for p in own],
                        [p["share"] for p in own],
                        label=task,
                        markersize=6,
                        **{**look(k), "linestyle": "none"},
                    )
                place.set(xlabel=label, ylabel="score / teacher's", title=campaign.name)
            axes[0].set_xscale("log")
            axes[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
            path = docs / f"results-{_read(campaign, results).home.name}"
            save(chart, path, [tuple(point.values()) for point in drawn], tuple(drawn[0]))
        made.append(path)
    return made


def _points(campaign: Campaign, line: Line, teacher: Line) -> Iterator[Record]:
    for task in campaign.tasks:
        ours, theirs = line.scores(task), teacher.scores(task)
        if ours and theirs and fmean(theirs) > 0:
            minutes = line.general["alone_seconds"] / 60 if line.general else 0.0
            yield {
                "row": line.row, "task": task, "kept": _size(line)["kept"], "minutes": round(minutes, 2),
                "share": fmean(ours) / fmean(theirs), "failed": bool(line.failed.get(task)),
            }  # fmt: skip


def listing(places: Places) -> Iterator[str]:
    """What there is to do and what is done, a line for each row."""
    campaign = places.campaign
    for row in (TEACHERS, *campaign.rows):
        line = line_of(places, row)
        if row == TEACHERS:
            stage = "fine-tuned"
        elif start_of(campaign, row).general is None:
            stage = "no general stage"
        else:
            stage = f"{line.general['tokens'] / 1e6:.1f}M tokens" if line.general else "general: not yet"
        parts = [f"{task} {len(line.cells.get(task, ()))}/{campaign.seeds_of(task)}" for task in campaign.tasks]
        yield f"{row:24} {stage:20} {'  '.join(parts)}"


def _read(campaign: Campaign, results: Path) -> Places:
    nowhere = Path()
    return Places(campaign, nowhere, nowhere, results, nowhere)


def _size(line: Line) -> Record:
    """As the general stage or, without one, the first cell tells."""
    record = line.general or next(iter(line.cells.values()))[0]
    found: Record = record["size"]
    return found


def _floor(line: Line, teacher: Line, task: str) -> float | None:
    known = [record["floor"] for each in (line, teacher) for record in each.cells.get(task, ()) if record["floor"] is not None]
    return known[0] if known else None


def _spent(teacher: Line, lines: Sequence[Line]) -> str:
    """What it ran on, and for how long: by the clock on a GPU, by the processor's own time on a CPU, which others may share."""
    general = [line.general for line in lines if line.general is not None and "same_as" not in line.general]
    cells = [record for line in (teacher, *lines) for records in line.cells.values() for record in records]
    machines = dict.fromkeys((record["machine"]["device"], record["machine"]["cpu"]) for record in (*general, *cells))
    names = ", ".join(cpu if device == "cpu" else device for device, cpu in machines)
    cpu = all(device == "cpu" for device, _ in machines)
    minutes = [
        sum(record.get(name) or 0.0 for record in records) / 60
        for records, name in (
            (general, "cpu_seconds" if cpu else "alone_seconds"),
            (cells, "cpu_seconds" if cpu else "seconds"),
        )
    ]
    unit = "minutes of processor time" if cpu else "minutes"
    return f"{names}: {minutes[0]:.1f} {unit} of general stages, {minutes[1]:.1f} of teachers and task stages."


def _floors(campaign: Campaign, teacher: Line) -> Iterator[str]:
    for task in campaign.tasks:
        for record in teacher.cells.get(task, ())[:1]:
            yield f"{task} {record['metric']} {record['floor']:.1f}"


def _cells(campaign: Campaign, line: Line, teacher: Line) -> list[str]:
    size, kept, mean = _size(line), retention(campaign, line, teacher), average(campaign, line)
    speed = line.speed and line.speed["speedup"]
    tokens = line.general["tokens"] if line.general else 0
    return [
        line.row,
        f"{size['paper'] / 1e6:.2f}M",
        f"{size['kept']:.4f} (1/{1 / size['kept']:.1f})",
        f"{4 * size['model'] / 1e6:.1f} MB",
        f"{size['flops'] / 1e9:.2f}G ({size['flops_kept']:.2f})",
        f"{speed['estimate']:.2f}x" if speed else "-",
        f"{tokens / 1e6:.1f}M",
        *(_score(line, task, teacher) for task in campaign.tasks),
        "-" if mean is None else f"{mean:.1f}",
        "-" if kept is None else f"{100 * kept:.1f}%",
    ]


def _score(line: Line, task: str, teacher: Line) -> str:
    scores = line.scores(task)
    if not scores:
        return "failed" if line.cells.get(task) else "-"
    spread = f" ± {stdev(scores):.1f}" if len(scores) > 1 else ""
    theirs = teacher.scores(task)
    share = (
        f" ({100 * fmean(scores) / fmean(theirs):.1f}%)" if theirs and teacher is not line and task not in line.failed else ""
    )
    return f"{fmean(scores):.1f}{spread}{share}{' failed' if task in line.failed else ''}"


def _teacher_cells(campaign: Campaign, teacher: Line) -> list[str]:
    mean = average(campaign, teacher)
    scores = [_score(teacher, task, teacher) for task in campaign.tasks]
    return ["the teacher", "", "1", "", "", "1x", "", *scores, "-" if mean is None else f"{mean:.1f}", "100%"]


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
