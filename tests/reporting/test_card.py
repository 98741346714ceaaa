"""README.md of a model folder: the hub's metadata, the numbers, and whose file it is."""

from pathlib import Path
from typing import Any

import made_up
import pytest
from huggingface_hub import ModelCard
from pico import save_folder, sentence_folder

from tenfold.errors import OutputError
from tenfold.pipeline import compress_folder
from tenfold.recipe import Compress, Recipe
from tenfold.reporting.card import CARD, MARK, write_card

EVIL = "</script><img src=x onerror='alert(1)'>|`\n---\nevil: true"


def card_of(folder: Path, **options: Any) -> Any:
    """As the hub's own library reads it: `data` and `text`."""
    return ModelCard.load(write_card(folder, **options), ignore_metadata_errors=False)


def compressed(model: Path, out: Path, method: str = "III-8") -> Path:
    compress_folder(str(model), out, Recipe(compress=Compress(method=method)), False, lambda _: None)
    return out


def test_the_hub_reads_the_metadata(tmp_path: Path) -> None:
    data = card_of(made_up.full(tmp_path / "taught")).data
    assert data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    assert data.tags == ["tenfold", "compressed", "tensor-train", "low-rank"]
    assert data.metrics == ["accuracy"]
    [rte, sst2] = data.eval_results or []
    assert (rte.dataset_type, rte.dataset_config, rte.dataset_split) == ("nyu-mll/glue", "rte", "validation")
    assert (rte.metric_type, rte.metric_value, sst2.metric_value) == ("accuracy", 0.617, 0.882)


def test_the_text_has_every_number(tmp_path: Path) -> None:
    text = card_of(made_up.full(tmp_path / "taught")).text
    for shown in (
        "# taught",
        'AutoModelForSequenceClassification.from_pretrained("taught")',
        "import tenfold",
        "| 10.6M | 1.49M | 0.140 (1/7.1) |",
        "| rte (dev) | accuracy | 61.7 ± 0.4 | 52.7 | 64.1 | 277 |",
        "2 rows are in the training data too",
        "| general | 0.770 | 0.670 | 0.570 |",
        "| 1 x 128 | eager | 0.87 | 0.82 to 0.92 |",
        "slower than the original (eager) below batch 8",
        "tenfold distill small taught --teacher sentence-transformers/all-MiniLM-L6-v2",
    ):
        assert shown in text, shown
    assert "What is not known" not in text


def test_metrics_have_the_hubs_names(tmp_path: Path) -> None:
    scores = made_up.scores()
    entry = scores["tasks"].pop("rte")
    split = {**entry["splits"]["dev"], "mean": {"matthews": 40.0}, "std": None, "seeds": [], "floor": None, "against": []}
    scores["tasks"] = {"cola": {"metrics": ["matthews"], "splits": {"dev": split}}, "my reviews": entry}
    data = card_of(made_up.full(tmp_path / "taught", scores=scores)).data
    found = [(result.dataset_type, result.metric_type, result.metric_value) for result in data.eval_results or []]
    assert found == [("nyu-mll/glue", "matthews_correlation", 0.4), ("my reviews", "accuracy", 0.617)]


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    text = card_of(made_up.folder(tmp_path / "small", "II-36")).text
    assert "- No scores on a task\n- No measured speed\n- Not taught since it was compressed" in text


@pytest.mark.parametrize("name", ["sequence_classification", None])
def test_the_code_in_it_loads_the_folder(tmp_path: Path, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    small = compressed(save_folder(tmp_path / "model", head=name), tmp_path / "small")
    code = write_card(small).read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["model"].config.quantization_config.plan.method == "III-8"
    assert names["tokenizer"]("the cat sees a dog")["input_ids"]


def test_a_sentence_model_is_loaded_as_one(tmp_path: Path) -> None:
    small = compressed(sentence_folder(tmp_path / "model"), tmp_path / "small")
    card = card_of(small)
    assert (card.data.library_name, card.data.pipeline_tag) == ("sentence-transformers", "sentence-similarity")
    assert 'model = SentenceTransformer("small")' in card.text
    assert card.data.base_model == "model", "a path on this machine means nothing elsewhere"
    assert card_of(small, base_model="org/model").data.base_model == "org/model"


def test_somebody_elses_card_stays(tmp_path: Path) -> None:
    folder = made_up.folder(tmp_path / "small", "II-36")
    (folder / CARD).write_text("mine")
    with pytest.raises(OutputError, match=r"README\.md was not written by tenfold and stays as it is: pass --force"):
        write_card(folder)
    assert (folder / CARD).read_text() == "mine"
    assert MARK in write_card(folder, force=True).read_text()
    assert MARK in write_card(folder).read_text()


def test_names_in_files_are_harmless(tmp_path: Path) -> None:
    history = [made_up.compress("II-36", 0.1, model=EVIL), made_up.distill(teacher=EVIL)]
    history[1]["command"] = ["tenfold", "```", EVIL]
    scores, speed = made_up.scores(), made_up.measurement()
    scores["tasks"][EVIL] = scores["tasks"].pop("rte")
    scores["tasks"]["sst2"]["splits"]["dev"]["warnings"] = [EVIL]
    speed["crossovers"] = [EVIL]
    folder = made_up.folder(tmp_path / "small", None, history=history, scores=scores, measurement=speed)
    card = card_of(folder)
    assert "evil" not in card.data.to_dict()
    outside = "".join(part for k, part in enumerate(card.text.split("````")) if k % 2 == 0)
    assert "<img" not in outside.replace("&lt;img", "")
    assert card.text.count("````") == 2
