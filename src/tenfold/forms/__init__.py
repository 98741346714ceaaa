"""The forms, by name. Adding one is a file here, a line in FORMS, a row in tests/forms and one in docs/design.md."""

from dataclasses import asdict
from typing import Any

from tenfold.errors import PlanError, nearest
from tenfold.forms.base import Factors, Form, Grid, Product, Shape, apply, macs, parameters
from tenfold.forms.layer_shared import LayerShared
from tenfold.forms.low_rank import LowRank
from tenfold.forms.mixed import Mixed
from tenfold.forms.tensor_train import TensorTrain
from tenfold.forms.tucker import Tucker, merge

FORMS: dict[str, type[Form]] = {form.kind: form for form in (LowRank, TensorTrain, Tucker, LayerShared, Mixed)}


def to_dict(form: Form) -> dict[str, Any]:
    """What goes into config.json."""
    if isinstance(form, Mixed):
        return {"kind": form.kind, "shared": to_dict(form.shared), "private": to_dict(form.private)}
    return {"kind": form.kind, **asdict(form)}  # type: ignore[call-overload]


def describe(form: Form) -> str:
    """`tucker l=36 p=128 q=128`, for tables."""
    if isinstance(form, Mixed):
        return f"{describe(form.shared)} + {describe(form.private)}"
    numbers = asdict(form)  # type: ignore[call-overload]
    return " ".join([form.kind, *(f"{k}={v}" for k, v in numbers.items() if v is not False)])


def from_dict(data: dict[str, Any]) -> Form:
    kind = data.get("kind", "")
    if kind not in FORMS:
        raise PlanError(f'a form must be one that this version knows, got "{kind}": {nearest(kind, FORMS)}')
    arguments = {k: from_dict(v) if isinstance(v, dict) else v for k, v in data.items() if k != "kind"}
    return FORMS[kind](**arguments)


__all__ = [
    "FORMS",
    "Factors",
    "Form",
    "Grid",
    "LayerShared",
    "LowRank",
    "Mixed",
    "Product",
    "Shape",
    "TensorTrain",
    "Tucker",
    "apply",
    "describe",
    "from_dict",
    "macs",
    "merge",
    "parameters",
    "to_dict",
]
