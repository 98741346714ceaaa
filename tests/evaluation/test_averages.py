"""The averages that the paper prints come out of the scores that it prints."""

from typing import Any

import pytest

from tenfold.evaluation.averages import averages, retention

SPLITS = {"mnli": ("matched", "mismatched")}
HEADLINES = {"mrpc": "f1", "qqp": "f1", "stsb": "spearman"}


def tasks(scores: dict[str, Any], rival: dict[str, Any] | None = None) -> dict[str, Any]:
    """Scores by task (MNLI's two as a pair) as they stand in scores.json."""
    found = {}
    for name in scores:
        metric, splits = HEADLINES.get(name, "accuracy"), SPLITS.get(name, ("dev",))
        ours, theirs = (
            dict(zip(splits, x if isinstance(x, tuple) else (x,), strict=True)) for x in (scores[name], (rival or scores)[name])
        )
        found[name] = {
            "metrics": [metric],
            "splits": {s: {"mean": {metric: ours[s]}, "against": [{"scores": {metric: theirs[s]}}]} for s in splits},
        }
    return found


BASE = {"sst2": 93.4, "mnli": (83.9, 83.4), "mrpc": 87.5, "qnli": 90.9, "qqp": 71.1, "rte": 66.4, "stsb": 85.2}
SMALL = {"sst2": 91.9, "mnli": (80.1, 79.6), "mrpc": 85.5, "qnli": 87.7, "qqp": 70.7, "rte": 63.3, "stsb": 80.7}


def test_the_main_table() -> None:
    found = averages(tasks(BASE), [])
    printed = {"all": 82.7, "spade": 88.7, "heart": 83.5, "club": 84.5}
    for name, value in printed.items():
        assert found[name]["mean"] == pytest.approx(value, abs=0.08), name
    assert "non_standard" not in found  # it takes accuracies of MRPC and QQP and STS-B's Pearson


def test_retention_on_average_is_the_ratio_of_averages() -> None:
    found = averages(tasks(SMALL, BASE), [("teacher", "teacher")])["all"]
    (against,) = found["against"]
    assert against["retention"] == pytest.approx(found["mean"] / against["mean"])
    assert against["retention"] == pytest.approx(0.967, abs=0.001)  # the paper's 96.7% of BERT-base
    assert retention(50.0, 0.0) is None and retention(50.0, None) is None


def test_an_average_needs_all_its_tasks() -> None:
    few = averages(tasks({name: BASE[name] for name in ("sst2", "qnli", "rte")}), [])
    assert set(few) == {"heart", "scored"}
    assert set(averages(tasks({"rte": 60.0}), [])) == set()


def test_the_second_table_means_metrics_and_splits_first() -> None:
    whole = tasks(BASE)
    for name, metric, value in (("mrpc", "accuracy", 80.0), ("qqp", "accuracy", 90.0), ("stsb", "pearson", 87.0)):
        whole[name]["splits"]["dev"]["mean"][metric] = value
    seven = [93.4, (83.9 + 83.4) / 2, (87.5 + 80.0) / 2, 90.9, (71.1 + 90.0) / 2, 66.4, (85.2 + 87.0) / 2]
    assert averages(whole, [])["non_standard"]["mean"] == pytest.approx(sum(seven) / 7)


def test_what_was_scored_has_a_plain_average() -> None:
    found = averages(tasks({"SST-2": 90.0, "mnli": (80.0, 70.0)}), [])
    assert found["scored"]["mean"] == pytest.approx((90.0 + 75.0) / 2)
    assert found["spade"]["mean"] == pytest.approx(85.0)
