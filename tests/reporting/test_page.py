"""report.html as text; what a browser makes of it is in test_browser.py."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import made_up
import pytest
import typer
from pico import save_folder

from tenfold.cli import app
from tenfold.plots import figure, save, style
from tenfold.records import ANALYSIS, REPORT
from tenfold.reporting.collect import collect
from tenfold.reporting.page import embedded, write_report
from tenfold.reporting.sections.analysed import embedded as picture
from tenfold.reporting.story import missing

EVIL = '</script><img src=x onerror="alert(1)">'


class Page(HTMLParser):
    """What there is on a page: elements, ids, links, addresses, texts by element, and the data that its script reads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.addresses: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        given = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name == "href" and value and tag == "a"]
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value and tag != "a"]
        assert not any(name.startswith("on") for name in given), given

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(text for tag, texts in self.texts.items() for text in texts if tag not in ("script", "style"))

    @property
    def data(self) -> Any:
        return json.loads(re.findall(r'id="data">(.*?)</script>', self.source, re.DOTALL)[0])


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = made_up.analyse(made_up.full(tmp_path_factory.mktemp("page") / "taught"))
    other = made_up.full(folder.parent / "other", "IV-36-128")
    return Page(write_report(folder, [other]))


def test_every_part_is_there(full: Page) -> None:
    assert full.texts["h1"] == ["taught"]
    assert full.texts["h2"] == [
        "Cost against quality",
        "Scores",
        "Agreement with the original",
        "Speed",
        "Teaching",
        "What each matrix lost",
        "Plan",
        "What the factors learnt",
        "How it was made",
    ]
    for shown in (
        "61.7 ± 0.4",  # a score with its spread
        "52.7",  # its floor
        "-2.4 (-4.4 to -0.4)",  # against the teacher
        "2 rows are in the training data too",
        "slower than the original (eager) below batch 8",
        "0.87",
        "onnxruntime is not installed",
        "3% of the rows were cut",
        "tensor_train p=70 q=70 + low_rank d=20",
        "tenfold compress sentence-transformers/all-MiniLM-L6-v2 small --method III-70+II-20",
        "model: all-MiniLM-L6-v2",
        "transformers 5.23.0",
    ):
        assert shown in full.text, shown
    assert not full.texts.get("p", [""])[0].startswith("No "), "nothing is missing"


def test_it_is_well_formed_and_asks_for_nothing(full: Page) -> None:
    assert full.open == []
    assert len(full.ids) == len(set(full.ids))
    assert {link[1:] for link in full.links} <= {*full.ids}
    assert full.addresses[0] == "data:,"
    assert [address[:22] for address in full.addresses[1:]] == ["data:image/png;base64,"]
    assert "://" not in full.source.replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in full.source


def test_every_site_has_its_loss(full: Page) -> None:
    heat = re.findall(r'<td style="--heat:([\d.]+)%">(\d+)</td>', full.source)
    size = made_up.LAYERS * len(made_up.ROLES)
    assert len(heat) == 3 * size
    assert heat[0] == ("20.0", "20")
    assert heat[2 * size - 1] == ("0.0", "0")
    assert set(heat[2 * size :]) == {("14.0", "14")}, "after teaching, over tiles by their energy"


def test_the_charts_get_the_numbers(full: Page) -> None:
    data = full.data
    runs = [point["run"] for point in data["points"]]
    assert runs == ["all-MiniLM-L6-v2", "taught (compressed)", "taught", "other (compressed)", "other"]
    assert [curve["name"] for curve in data["curves"]] == ["taught: general stage"]
    assert {axis["better"] for axis in data["axes"]["y"]} == {"higher"}
    for k, _ in enumerate(runs):
        assert f'id="point-{k}"' in full.source


def test_an_empty_run_says_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    folder = made_up.folder(tmp_path / "small run", "II-36")
    page = Page(write_report(folder))
    for command in (
        f"tenfold finetune '{folder}' '{folder}-tuned' --task sst2",
        f"tenfold measure '{folder}' --against sentence-transformers/all-MiniLM-L6-v2",
        f"tenfold distill '{folder}' '{folder}-taught' --teacher sentence-transformers/all-MiniLM-L6-v2 --text wiki.txt",
    ):
        assert command in page.texts["code"]
    assert "Agreement with the original" not in page.texts["h2"]


def test_the_commands_that_it_names_exist(tmp_path: Path) -> None:
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    named = [each.command for each in missing(collect(made_up.folder(tmp_path / "small", "II-36"))) if each.command]
    assert len(named) == 4
    for program, verb, *words in map(shlex.split, named):
        known = {option for parameter in verbs[verb].params for option in parameter.opts}
        assert program == "tenfold"
        assert {word for word in words if word.startswith("--")} <= known, verb


def test_a_model_for_a_task_is_scored_without_more_words(tmp_path: Path) -> None:
    folder = made_up.folder(tmp_path / "tuned", "II-36")
    (folder / "task.json").write_text("{}")
    assert f"tenfold evaluate {folder}" in Page(write_report(folder)).texts["code"]


def test_a_dense_run_and_a_folder_of_measurements_alone(tmp_path: Path) -> None:
    entry = made_up.stamp(
        "finetune", "finetune", "bert", "teacher", model="bert", task="rte", curve=[{"step": 1, "score": 55.0}]
    )
    dense = Page(write_report(made_up.folder(tmp_path / "teacher", None, history=[entry])))
    assert "Plan" not in dense.texts["h2"]
    assert [each["better"] for each in dense.data["measures"]] == ["higher"]
    speeds = Page(write_report(made_up.folder(tmp_path / "speeds", None, measurement=made_up.measurement())))
    assert "Speed" in speeds.texts["h2"]


def test_a_table_of_models(tmp_path: Path) -> None:
    folder = tmp_path / "stages"
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(made_up.results()))
    page = Page(write_report(folder))
    assert page.texts["h2"] == ["Cost against quality", "Models side by side"]
    for shown in ("60.2 ± 0.5", "52.7", "seed-0 answers 1 to every row", "2 rows are in the training data too", "95.6%"):
        assert shown in page.text, shown
    points = {point["run"]: point for point in page.data["points"]}
    assert [point["form"] for point in points.values()] == ["original", "mixed", "tensor_train"]
    assert points["stages: both stages"]["values"] == {
        "parameters:model": 13_600_000,
        "disk": 54_400_000,
        "score:average:scored": (60.2 + 84.1) / 2,
        "score:rte:dev:accuracy": 60.2,
        "score:stsb:dev:spearman": 84.1,
    }


def test_names_in_files_are_harmless(tmp_path: Path) -> None:
    """Wherever a text comes from a file, it is shown as text."""
    history = [made_up.compress("II-36", 0.1, model=EVIL, notes=[EVIL]), made_up.distill(teacher=EVIL, notes=[EVIL])]
    history[0]["command"], history[0]["machine"], history[0]["versions"] = ["tenfold", EVIL], EVIL, {EVIL: EVIL}
    scores, speed, alike = made_up.scores(), made_up.measurement(), made_up.agreement()
    scores["tasks"][EVIL] = scores["tasks"].pop("rte")
    scores["tasks"]["sst2"]["splits"]["dev"]["warnings"] = [EVIL]
    scores["tasks"]["sst2"]["splits"]["dev"]["against"][0]["name"] = EVIL
    speed["crossovers"], speed["notes"], speed["machine"]["cpu"] = [EVIL], [EVIL], EVIL
    alike["rows"][0]["name"] = alike["original"] = EVIL
    folder = made_up.folder(tmp_path / "small", None, history=history, scores=scores, measurement=speed, agreement=alike)
    config = made_up.config("II-36")
    config["quantization_config"]["method"] = config["quantization_config"]["groups"][0]["name"] = EVIL
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "recipe.yaml").write_text(EVIL)
    page = Page(write_report(folder))
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert page.text.count(EVIL) > 12
    assert any(EVIL in str(point) for point in page.data["points"])


def test_data_holds_nothing_that_ends_its_element_or_breaks_json() -> None:
    text = embedded({"a": [float("nan"), float("inf"), 1.5], "b": "</script>\u2028"})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"a": [None, None, 1.5], "b": "</script>\u2028"}


def test_a_real_run(tmp_path: Path) -> None:
    """compress a pico model, then report: the page's numbers are the plan's."""
    from tenfold.pipeline import compress_folder
    from tenfold.recipe import Compress, Recipe

    model = save_folder(tmp_path / "model", head="sequence_classification")
    (model / REPORT).write_text("of the original")
    (model / ANALYSIS).mkdir()
    out = tmp_path / "small"
    result = compress_folder(str(model), out, Recipe(compress=Compress(method="III-8")), False, lambda _: None)
    assert not (out / REPORT).exists() and not (out / ANALYSIS).exists(), "what tells of the original stays there"
    page = Page(write_report(out))
    totals = result.plan.totals
    assert totals is not None
    assert f"{result.plan.groups[0].parameters:,}" in page.text
    lost = {site.path: fit.sites[site.path][0] for fit in result.report.fits for site in result.plan.factored}
    heat = [int(shown) for _, shown in re.findall(r'<td style="--heat:([\d.]+)%">(\d+)</td>', page.source)]
    assert sorted(heat) == sorted(int(f"{100 * value:.0f}") for value in lost.values())
    [original, small] = page.data["points"]
    assert original["values"]["parameters:model"] == totals.model
    assert small["values"]["parameters:model"] == result.plan.kept("model")
    assert original["values"]["disk"] == (model / "model.safetensors").stat().st_size


@pytest.mark.parametrize(("size", "broad"), [((4, 4), False), ((8, 4), True)])
def test_pictures_are_inside_and_broad_ones_as_wide_as_the_page(tmp_path: Path, size: tuple[float, float], broad: bool) -> None:
    with style():
        chart, _ = figure(size=size)
        file, *_ = save(chart, tmp_path / "a <b>", [], ())
    shown = picture(file, "a <b>")
    assert f'width="{120 * size[0]:.0f}" height="{120 * size[1]:.0f}"' in shown
    assert ('class="picture broad"' in shown) == broad
    assert 'src="data:image/png;base64,' in shown and shown.count("a &lt;b&gt;") == 2


def test_figures_say_their_group_only_where_there_are_several(tmp_path: Path) -> None:
    folder = made_up.analyse(made_up.full(tmp_path / "one"))
    title = "Distances between factors"
    assert f"<figcaption>{title}</figcaption>" in write_report(folder).read_text(encoding="utf-8")
    file = folder / ANALYSIS / "analysis.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**record, "groups": record["groups"] * 2}), encoding="utf-8")
    assert f"<figcaption>{title} (all)</figcaption>" in write_report(folder).read_text(encoding="utf-8")
