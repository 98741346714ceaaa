"""Real times: a model against itself, and through the real compiler. Minutes, and a machine that has them to spare."""

import pytest
from pico import save_folder

from tenfold.measurement import Settings, measure_folders

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    size = {"hidden_size": 256, "intermediate_size": 1024, "layers": 4}
    return str(save_folder(tmp_path_factory.mktemp("models") / "m", "bert", None, **size))


def test_a_model_against_itself_is_as_fast_as_itself(folder: str) -> None:
    """An interval of 95% may miss once in twenty: two of three misses are one in 140."""
    found = measure_folders(folder, folder, Settings(batches=(1, 4, 16), lengths=(32,), max_seconds=20))
    ratios = [ratio for cell in found.cells for ratio in cell.speedups]
    inside = [ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high for ratio in ratios]
    assert sum(inside) >= 2, ratios
    assert all(0.9 < ratio.estimate < 1.1 for ratio in ratios), ratios


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_the_compiler_gives_the_same_outputs_and_its_time_is_apart(folder: str) -> None:
    settings = Settings(batches=(1, 2), lengths=(8,), paths=("eager", "compiled"), repeats=20)
    found = measure_folders(folder, folder, settings)
    for cell in found.cells:
        compiled = cell.timing("original", "compiled")
        assert compiled is not None
        if compiled.state == "absent":
            pytest.skip(f"there is no compiler: {compiled.why}")
        assert compiled.state == "timed"
        assert compiled.difference is not None and compiled.median is not None and compiled.first_seconds is not None
        assert compiled.difference < 1e-5
        assert compiled.median < compiled.first_seconds / 10
