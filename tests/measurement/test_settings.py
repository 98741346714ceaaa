"""What may be asked, and what each mistake is told."""

from pathlib import Path
from typing import Any

import pytest

from tenfold.errors import TenfoldError
from tenfold.measurement import Settings
from tenfold.measurement.settings import parse_bytes, parse_names, parse_numbers


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"batches": ()}, "a batch must be named, got none: write for example 1,8,32"),
        ({"batches": (0,)}, "a batch must be 1 or more, got 0"),
        ({"batches": (1, 8, 1)}, "a batch must be named once, got 1 again"),
        ({"lengths": (128, -1)}, "a length must be 1 or more, got -1"),
        ({"dtypes": ("float8",)}, 'a dtype must be one of float32, bfloat16, float16, got "float8": did you mean "float32"'),
        ({"paths": ("eagre",)}, 'a path must be one of eager, compiled, fused, onnx, got "eagre": did you mean "eager"'),
        ({"paths": ()}, "a path must be named, got none: choose from eager"),
        ({"paths": ("onnx", "onnx")}, "a path must be named once, got onnx again"),
        ({"repeats": 5}, "--repeats must be at least 6, for a 95% interval to exist, got 5"),
        ({"interval": 0.0}, "--interval must be a number above 0, got 0.0"),
        ({"max_seconds": float("nan")}, "--max-seconds must be a number above 0, got nan"),
        ({"memory_limit": 0}, "--memory-limit must be above 0, got 0"),
        ({"lengths": (8,), "lengths_from": Path("x.txt")}, "lengths come either from --length or from --lengths-from"),
    ],
)
def test_a_mistake_is_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(TenfoldError) as error:
        Settings(**given)
    assert told in str(error.value)


def test_texts_become_settings() -> None:
    assert parse_numbers("1,8, 32", "--batch") == (1, 8, 32)
    assert parse_names("eager, compiled,") == ("eager", "compiled")
    with pytest.raises(TenfoldError, match='--length must be whole numbers with commas between, got "1;8": write 1,8,32'):
        parse_numbers("1;8", "--length")


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GB", 8 * 10**9), ("512 MiB", 2**29), ("1.5k", None), ("1.5KB", 1500), ("100", 100), ("GB", None), ("-1GB", None)],
)
def test_sizes_have_units(text: str, size: int | None) -> None:
    if size is not None:
        assert parse_bytes(text) == size
        return
    with pytest.raises(TenfoldError, match="--memory-limit must be a number with a unit"):
        parse_bytes(text)
