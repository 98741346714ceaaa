"""A plan: which tiles form a group, which form each group takes, and what that costs. No weights are read for it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tenfold.errors import CheckpointError
from tenfold.forms import Form, Grid, describe, from_dict, macs, parameters, to_dict
from tenfold.planning.sites import EMBEDDING, Site

VERSION = 1
MATRICES, PAPER, MODEL = "matrices", "paper", "model"
SCOPES = {
    MATRICES: "the weight matrices inside the layers",
    PAPER: "all but the word table and the head (the paper's Para.)",
    MODEL: "everything",
}


@dataclass(frozen=True)
class Group:
    """Sites cut into tiles of one shape (i, o), factored together. Tiles count through the sites row by row."""

    name: str
    form: Form
    i: int
    o: int
    sites: tuple[Site, ...]

    @property
    def n(self) -> int:
        return sum(rows * columns for rows, columns in map(self.grid_shape, self.sites))

    def grid_shape(self, site: Site) -> tuple[int, int]:
        return site.i // self.i, site.o // self.o

    def grids(self) -> list[tuple[Site, Grid]]:
        """Each site with the indices of its tiles."""
        out: list[tuple[Site, Grid]] = []
        start = 0
        for site in self.sites:
            rows, columns = self.grid_shape(site)
            out.append((site, [[start + r * columns + c for c in range(columns)] for r in range(rows)]))
            start += rows * columns
        return out

    @property
    def dense(self) -> int:
        return sum(site.size for site in self.sites)

    @property
    def parameters(self) -> int:
        return parameters(self.form, self.n, self.i, self.o)

    @property
    def macs(self) -> int:
        """Multiply-adds a token; a row of a table is looked up, so only its second factor counts."""
        if self.sites[0].kind == EMBEDDING:
            return self.form.shapes(self.n, self.i, self.o)["B"][1] * self.o
        return sum(macs(self.form, self.n, self.i, self.o, *self.grid_shape(site)) for site in self.sites)

    @property
    def fold_macs(self) -> int:
        return self.form.fold_macs(self.n, self.i, self.o)


@dataclass(frozen=True)
class Totals:
    """The original's counts. `attention` is the sum over layers of the width that attention works in."""

    model: int
    paper: int
    matrices: int
    attention: int
    embedding: int

    def of(self, scope: str) -> int:
        return {MATRICES: self.matrices, PAPER: self.paper, MODEL: self.model}[scope]


@dataclass(frozen=True)
class Plan:
    """What compression will do: groups and notes, with the counts of the original that predictions start from."""

    method: str
    groups: tuple[Group, ...]
    totals: Totals | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def matrix_groups(self) -> tuple[Group, ...]:
        return tuple(g for g in self.groups if g.sites[0].kind != EMBEDDING)

    @property
    def factored(self) -> tuple[Site, ...]:
        return tuple(site for group in self.groups for site in group.sites)

    def kept(self, scope: str) -> int:
        """Parameters after compression, of one of SCOPES."""
        assert self.totals is not None
        groups = self.groups if scope == MODEL else self.matrix_groups
        return self.totals.of(scope) - sum(g.dense - g.parameters for g in groups)

    def ratio(self, scope: str) -> float:
        """Kept / original."""
        assert self.totals is not None
        return self.kept(scope) / self.totals.of(scope)

    def flops(self, batch: int = 1, length: int = 128, fold: bool = False) -> tuple[int, int]:
        """Of the original and of the compressed model: 2 x multiply-adds of the matrices and of attention's two products.

        Embedding lookups, norms, biases, heads are left out, as in the paper; so are
        DeBERTa's passes over relative positions. `fold` adds what a forward pass pays
        once for mixing a bank (nothing once the constants are folded for serving).
        """
        assert self.totals is not None
        tokens = batch * length
        attention = 2 * length * self.totals.attention  # scores and context: each length x width a token
        dense = self.totals.matrices
        saved = sum(g.dense - g.macs for g in self.matrix_groups) - sum(
            g.macs for g in self.groups if g not in self.matrix_groups
        )
        folding = sum(g.fold_macs for g in self.groups) if fold else 0
        return 2 * tokens * (dense + attention), 2 * (tokens * (dense - saved + attention) + folding)

    def summary(self) -> dict[str, Any]:
        """The counts by scope, and the FLOPs of one request of 128 tokens."""
        assert self.totals is not None
        before, after = self.flops()
        return {
            "method": self.method,
            "parameters": {
                scope: {"before": self.totals.of(scope), "after": self.kept(scope), "ratio": self.ratio(scope)}
                for scope in SCOPES
            },
            "flops": {"batch": 1, "length": 128, "before": before, "after": after, "ratio": after / before},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """The groups, and what is kept of each scope where the original's counts are known."""
        lines = [self.method]
        for g in self.groups:
            lines.append(f"{g.name}: {describe_sites(g.sites)}, {g.n} tiles of {g.i} x {g.o}, {describe(g.form)}")
        if self.totals is not None:
            for scope in SCOPES:
                before, after = self.totals.of(scope), self.kept(scope)
                lines.append(f"{scope}: {before:,} -> {after:,} parameters, {after / before:.3f} kept")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """What config.json carries: everything needed to build the modules, nothing that can be counted from them."""
        return {
            "version": VERSION,
            "method": self.method,
            "groups": [
                {"name": g.name, "form": to_dict(g.form), "tile": [g.i, g.o], "sites": [asdict(s) for s in g.sites]}
                for g in self.groups
            ],
        }


def plan_from_dict(data: dict[str, Any]) -> Plan:
    if data.get("version") != VERSION:
        raise CheckpointError(
            f"the plan in config.json must have version {VERSION}, got {data.get('version')}: use the tenfold that wrote it"
        )
    return Plan(data["method"], tuple(_group(g) for g in data["groups"]))


def _group(data: dict[str, Any]) -> Group:
    sites = tuple(Site(**site) for site in data["sites"])
    i, o = data["tile"]
    return Group(data["name"], from_dict(data["form"]), i, o, sites)


def describe_sites(sites: Iterable[Site]) -> str:
    """`attn.q k v o, ffn.in out x 12 layers`."""
    roles: dict[str, list[str]] = {}
    layers = set()
    for site in sites:
        layers.add(site.layer)
        block, _, name = site.role.partition(".")
        if name not in roles.setdefault(block, []):
            roles[block].append(name)
    text = ", ".join(f"{block}.{' '.join(names)}" if names != [""] else block for block, names in roles.items())
    return text if layers == {-1} else f"{text} x {len(layers)} layers"
