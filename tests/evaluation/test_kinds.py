"""Every kind of task goes from rows to a model to its scores."""

from pathlib import Path

import pytest
from labelled import Table, classes, pairs, write
from pico import save_folder

from tenfold.evaluation.scoring import evaluate_folder
from tenfold.finetuning.running import finetune_folder
from tenfold.finetuning.settings import Finetune
from tenfold.tasks import TaskSpec
from tenfold.tasks.metrics import METRICS


def several(rows: int) -> Table:
    """Two labels that may hold at once: both, either, or none."""
    cells = {"pos": "loud|warm", "neg": ""}
    return [{"text": row["text"], "labels": cells[row["label"]]} for row in classes(rows)]


CASES = [("multi_label", several(64), METRICS["multi_label"], True), ("regression", pairs(64), METRICS["regression"], False)]


@pytest.mark.parametrize(("kind", "table", "metrics", "better"), CASES, ids=[case[0] for case in CASES])
def test_from_rows_to_scores(tmp_path: Path, kind: str, table: Table, metrics: tuple[str, ...], better: bool) -> None:
    save_folder(tmp_path / "model")
    spec = TaskSpec.model_validate({"train": write(tmp_path / "rows.csv", table), "kind": kind, "dev_share": 0.25})
    learnt = finetune_folder(str(tmp_path / "model"), tmp_path / "out", spec, Finetune(lr=(5e-3,), batch=(8,), epochs=4))
    record = evaluate_folder(str(tmp_path / "out"), None, teacher=str(tmp_path / "out"))
    found = record["tasks"]["own"]["splits"]["dev"]
    assert tuple(found["mean"]) == metrics
    assert found["mean"] == pytest.approx(learnt.scores["dev"], rel=1e-3)
    (against,) = found["against"]
    assert (against["difference"], against["low"], against["high"], against["p"]) == (0.0, 0.0, 0.0, 1.0)
    headline = record["tasks"]["own"]["metrics"][0]
    if better:
        assert against["retention"] == 1.0
        assert found["mean"][headline] > found["floor"]["scores"][headline]
