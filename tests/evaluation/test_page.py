"""docs/tasks.md lists the tasks, metrics and kinds that there are."""

from pathlib import Path

from tenfold.evaluation.averages import AVERAGES, SCORED
from tenfold.finetuning.settings import GRID, Finetune
from tenfold.tasks import AugmentSpec, glue
from tenfold.tasks.augmentation import usual_copies
from tenfold.tasks.metrics import METRICS

PAGE = (Path(__file__).parents[2] / "docs/tasks.md").read_text(encoding="utf-8")


def cells(first: str) -> list[str]:
    """The row of a table that begins with this cell."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{first}` |")]
    return [cell.strip() for cell in line.replace(r"\|", "/").strip("|").split("|")]


def test_tasks_have_their_metrics_and_lengths() -> None:
    for name, row in glue().items():
        _, rows, metrics, length = cells(name)
        assert (metrics, length) == (", ".join(row.task.metrics), str(row.task.length))
        assert rows.startswith("pairs" if row.task.pair else "one text")
        assert ("three classes" in rows) == (len(row.task.labels) == 3)


def test_kinds_have_their_metrics() -> None:
    for kind, metrics in METRICS.items():
        assert cells(kind)[-1] == ", ".join(metrics)


def test_defaults_and_averages_are_those_of_the_code() -> None:
    default = Finetune()
    assert f"{default.lr[0]:g}".replace("e-05", "e-5") == "2e-5" and default.batch == (32,) and default.factors == 20
    assert GRID == {"lr": (1e-5, 2e-5, 3e-5), "batch": (16, 32)}
    assert all(f"`{name}`" in PAGE for name in (*AVERAGES, SCORED))


def test_augmentation_is_as_the_page_says() -> None:
    default = AugmentSpec()
    assert (default.p, default.candidates) == (0.4, 15)
    assert [usual_copies(rows) for rows in (10_000, 10_001, 200_000, 200_001)] == [30, 20, 20, 10]
    section = " ".join(PAGE.split("## Augmentation")[1].split("\n## ")[0].split())
    assert all(
        text in section for text in ("probability 0.4", "up to 15 candidates", "Up to 30", "20 where", "10 from 200,000")
    )
