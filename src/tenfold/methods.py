"""The names of methods: `IV-36-128`, `III-64`, `II-245`, `II-alpha-245`, `IV-FFN-48-384`, `ALBERT`, `III-64+II-4`.

    [MODEL-] II[-alpha|-beta] [-SAN|-FFN] - d
    [MODEL-] III              [-SAN|-FFN] - d            d may be PxQ: 128x96 is 128 on the input side, 96 on the output side
    [MODEL-] IV               [-SAN|-FFN] - l - d
    [MODEL-] ALBERT           [-SAN|-FFN]
    shared + II-d                                        a shared form and a private low-rank part

A method is what a user types; a form with its numbers checked against a group is what a plan holds.
"""

import re
from dataclasses import dataclass

from tenfold.errors import PlanError, nearest
from tenfold.forms import Form, LayerShared, LowRank, Mixed, TensorTrain, Tucker

ALL, ATTENTION, FFN = "all", "attention", "ffn"
_SITES = {None: ALL, "SAN": ATTENTION, "FFN": FFN}
_RANK = r"(\d+)(?:x(\d+))?"
_PART = re.compile(
    r"(?:(?:BERT|TINYBERT|GPT)-)?(?:(?P<two>II)(?:-(?P<variant>ALPHA|BETA))?|(?P<three>III)|(?P<four>IV)|(?P<albert>ALBERT))"
    r"(?:-(?P<sites>SAN|FFN))?(?P<numbers>(?:-\d+(?:x\d+)?)*)",
    re.IGNORECASE,
)
EXAMPLES = "II-245, II-alpha-245, III-64, III-128x96, IV-36-128, IV-FFN-48-384, IV-SAN-24-384, ALBERT, III-64+II-4"


@dataclass(frozen=True)
class Method:
    """A parsed name. `parts` are (kind, numbers) of the summands, the shared one first."""

    name: str
    sites: str
    parts: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]

    def form(self, n: int, per_layer: int | None) -> Form:
        """The form for a group of n tiles, `per_layer` of them in each layer; None where layers have unequal numbers."""
        forms = [_form(kind, numbers, n, per_layer) for kind, numbers in self.parts]
        if len(forms) == 1:
            return forms[0]
        shared, private = forms
        assert isinstance(private, LowRank)
        return Mixed(shared, private)


def parse(text: str) -> Method:
    pieces = text.strip().split("+")
    matches = [_PART.fullmatch(piece.strip()) for piece in pieces]
    if len(pieces) > 2 or any(match is None for match in matches):
        close = nearest(text, EXAMPLES.split(", "))
        raise PlanError(f'a method must be one of the paper\'s names or a sum of two, got "{text}": {close}')
    found = [match for match in matches if match is not None]
    parts = tuple(_numbers(match, text) for match in found)
    if len(parts) == 2:
        if parts[0][0].startswith("low_rank"):
            raise PlanError(f'a sum is a shared form + a private II, got "{text}": put III, IV or ALBERT first')
        if not parts[1][0].startswith("low_rank"):
            raise PlanError(f'a sum is a shared form + a private II, got "{text}": the second part must be II-d')
    sites = {(match["sites"] or "").upper() or None for match in found}
    if len(sites) > 1:
        raise PlanError(f'both parts of a sum must take the same sites, got "{text}": name SAN or FFN in both or in neither')
    return Method("+".join(piece.strip() for piece in pieces), _SITES[sites.pop()], parts)


def _numbers(match: re.Match[str], text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    if match["albert"]:
        kind, expected = "layer_shared", 0
    elif match["four"]:
        kind, expected = "tucker", 2
    elif match["three"]:
        kind, expected = "tensor_train", 1
    else:
        kind, expected = "low_rank" + ("_alpha" if (match["variant"] or "").upper() == "ALPHA" else ""), 1
    ranks = [(int(p), int(q or p)) for p, q in re.findall(_RANK, match["numbers"])]
    if len(ranks) != expected or (kind != "tensor_train" and ranks and ranks[0][0] != ranks[0][1]):
        raise PlanError(
            f'II and III take one rank, IV a bank size and a rank, ALBERT none, got "{text}": for example {EXAMPLES}'
        )
    return kind, tuple(ranks)


def _form(kind: str, numbers: tuple[tuple[int, int], ...], n: int, per_layer: int | None) -> Form:
    if kind == "layer_shared":
        if per_layer is None:
            raise PlanError(
                f"ALBERT needs the same number of tiles in every layer, got {n} tiles in unequal layers: choose --group role, "
                "or sites that every layer has"
            )
        return LayerShared(per_layer, n)
    if kind == "tucker":
        return Tucker(numbers[0][0], *numbers[1])
    if kind == "tensor_train":
        return TensorTrain(*numbers[0])
    return LowRank(numbers[0][0], diagonal=kind == "low_rank_alpha")
