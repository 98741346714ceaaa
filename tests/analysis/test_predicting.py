"""A predicted error is what compressing then loses; where it is only a bound, the fit loses no more."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from pico import CORPUS, pico, tokenizer

import tenfold
from tenfold.analysis.exploring import Settings, explore
from tenfold.analysis.predicting import ENOUGH, Prediction, suggest
from tenfold.calibration import Batch, batches_of
from tenfold.planning import Candidate
from tenfold.recipe import Compress


@pytest.fixture(scope="module")
def model() -> Any:
    """Decaying spectra, and inputs that are far from white: else every form loses alike."""
    network = pico("bert", seed=3)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.ndim == 2 and "encoder" in name:
                u, s, v = torch.linalg.svd(parameter, full_matrices=False)
                parameter.copy_(u * (s * torch.linspace(1, 0.05, len(s)) ** 2) @ v)
    return network


@pytest.fixture(scope="module")
def text() -> list[Batch]:
    return batches_of(tokenizer(), CORPUS, 2048, 32)


@pytest.fixture(scope="module")
def predictions(model: Any, text: list[Batch]) -> Sequence[Prediction]:
    return explore(model, Settings(Compress(), ("1/2", "1/5"), pairs=0), text).predictions


def fitted(model: Any, prediction: Prediction, **how: Any) -> tuple[float, float | None]:
    """Shares lost over all groups, each weighted as the prediction weighs it, for plans of one group."""
    network = deepcopy(model)
    report = tenfold.compress_(network, prediction.candidate.plan, **how)
    assert len(report.fits) == 1
    return report.fits[0].weight_error, report.fits[0].output_error


def square(predictions: Sequence[Prediction]) -> list[Prediction]:
    return [p for p in predictions if p.candidate.tile == "square"]


def test_errors_in_weight_space_are_those_of_hosvd(model: Any, predictions: Sequence[Prediction]) -> None:
    for prediction in square(predictions):
        loses, _ = fitted(model, prediction, init="hosvd")
        if prediction.bounds["weight_bound"]:
            assert loses <= prediction.weight_error + 1e-6
            assert prediction.weight_error < 1.3 * loses
        else:
            assert prediction.weight_error == pytest.approx(loses, rel=1e-4), prediction.candidate.plan.method


def test_errors_of_outputs_are_those_of_activation_aware_fits(
    model: Any, text: list[Batch], predictions: Sequence[Prediction]
) -> None:
    for prediction in square(predictions):
        method = prediction.candidate.plan.method
        exact = method.startswith(("II-", "III-")) and "+" not in method
        _, loses = fitted(model, prediction, init="activation", batches=text, **({"rounds": 0} if exact else {}))
        assert loses is not None and prediction.output_error is not None
        if exact:
            assert prediction.output_error == pytest.approx(loses, rel=0.02), method  # the fit's ridge is not in its own error
        else:
            assert loses * 0.98 <= prediction.output_error <= max(1.6 * loses, loses + 0.1), method


def test_whole_matrices_are_weighed_by_their_energy(model: Any, predictions: Sequence[Prediction]) -> None:
    prediction = next(p for p in predictions if p.candidate.tile == "whole")
    network = deepcopy(model)
    tenfold.compress_(network, prediction.candidate.plan, init="hosvd")
    lost = total = 0.0
    for site in prediction.candidate.plan.factored:
        before = model.get_submodule(site.path).weight.detach()
        after = network.get_submodule(site.path).weight.detach()
        lost, total = lost + float((before - after).square().sum()), total + float(before.square().sum())
    assert prediction.weight_error == pytest.approx(lost / total, rel=1e-4)


def test_fitting_gives_what_compress_gives(model: Any, text: list[Batch], predictions: Sequence[Prediction]) -> None:
    exact = explore(model, Settings(Compress(), ("1/5",), pairs=0, fit=True), text).predictions
    bounds = {p.candidate.plan.method: p for p in predictions}
    for prediction in square(exact):
        assert not any(prediction.bounds.values())
        method = prediction.candidate.plan.method
        _, loses = fitted(model, prediction, init="activation", batches=text)
        assert prediction.output_error == pytest.approx(loses, rel=0.02), method
        assert prediction.error <= bounds[method].error * 1.02


def test_sites_that_stay_dense_count_as_kept() -> None:
    model = pico("llama_gqa")
    found = explore(model, Settings(Compress(tile="whole"), ("1/2",), pairs=0), None)
    assert len(found.looks) > 1
    for prediction in found.predictions:
        network = deepcopy(model)
        tenfold.compress_(network, prediction.candidate.plan, init="hosvd")
        dense = tenfold.to_dense(network).state_dict()
        names = [name for name, value in model.state_dict().items() if "layers" in name and value.ndim == 2]
        lost = sum(float((model.state_dict()[name] - dense[name]).square().sum()) for name in names)
        total = sum(float(model.state_dict()[name].square().sum()) for name in names)
        limit = 1e-4 if not prediction.bounds["weight_bound"] else 0.3
        assert prediction.weight_error == pytest.approx(lost / total, rel=limit), prediction.candidate.plan.method


def made_up(predictions: Sequence[Prediction], *errors: float) -> list[Prediction]:
    """The recommended ones, largest first, with these errors."""
    chosen = sorted((p for p in predictions if p.candidate.chosen), key=lambda p: -p.candidate.plan.ratio("matrices"))
    return [Prediction(p.size, p.candidate, e, None, False) for p, e in zip(chosen, errors, strict=True)]


def test_the_suggestion_is_the_smallest_that_starts_close(predictions: Sequence[Prediction]) -> None:
    both, large, none = (suggest(made_up(predictions, a, b)) for a, b in ((0.01, 0.05), (0.05, 0.5), (0.3, 0.5)))
    assert both is not None and large is not None and none is not None
    assert (both["size"], large["size"], none["size"]) == ("1/5", "1/2", "1/2")
    assert f"less than {ENOUGH:.0%}" in large["why"]
    assert "tenfold distill" in none["why"]
    assert suggest([]) is None


def test_a_candidate_keeps_its_plan(predictions: Sequence[Prediction]) -> None:
    assert all(isinstance(p.candidate, Candidate) and 0 <= p.weight_error <= 1 for p in predictions)
    assert [p.size for p in predictions if p.candidate.chosen] == ["1/2", "1/5"]
