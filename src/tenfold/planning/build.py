"""From a method's name and a model's sites to a plan."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tenfold.archs import ATTENTION, FFN
from tenfold.errors import PlanError
from tenfold.forms import LowRank, describe
from tenfold.methods import ALL, Method
from tenfold.planning.plan import Group, Plan, Totals
from tenfold.planning.sites import Site, find_embedding, word_table
from tenfold.recipe import Compress

PREFIX = {ALL: "", "attention": ATTENTION, "ffn": FFN}


def totals(model: Any, sites: Sequence[Site]) -> Totals:
    """The counts of the uncompressed model. The word table is the one that its input embeddings hold, if any."""
    base = model.base_model
    embedding = getattr(word_table(base), "weight", None)
    table = embedding.numel() if embedding is not None and embedding.ndim == 2 else 0
    return Totals(
        model=sum(p.numel() for p in model.parameters()),
        paper=sum(p.numel() for p in base.parameters()) - table,
        matrices=sum(site.size for site in sites),
        attention=sum(_attention_width(layer) for layer in _by_layer(sites)),
        embedding=table,
    )


def _by_layer(sites: Sequence[Site]) -> list[list[Site]]:
    layers: dict[int, list[Site]] = {}
    for site in sites:
        layers.setdefault(site.layer, []).append(site)
    return list(layers.values())


def _attention_width(layer: Sequence[Site]) -> int:
    """The width of the context that attention's last matrix reads: heads x head size."""
    attention = [site for site in layer if site.role.startswith(ATTENTION)]
    return attention[-1].i if attention else 0


def build_plan(model: Any, sites: Sequence[Site], method: Method, settings: Compress) -> Plan:
    """One group for each grouping key and tile shape, each with the method's form at numbers that fit it."""
    prefix = PREFIX[settings.sites or method.sites]
    chosen = [site for site in sites if site.role.startswith(prefix)]
    if not chosen:
        raise PlanError(
            f"a plan needs at least one matrix, got none for sites {settings.sites or method.sites}: "
            "choose all, attention or ffn"
        )
    hidden = width(model, sites)
    buckets: dict[tuple[str, int, int], list[Site]] = {}
    for site in chosen:
        buckets.setdefault((_key(site, settings.group), *_tile(site, settings.tile, hidden)), []).append(site)
    groups, notes = _groups(method, buckets)
    if settings.embeddings:
        groups.append(_embedding_group(model, settings.embeddings))
    count = totals(model, sites)
    return Plan(method.name, tuple(groups), count, (*notes, *_limits(model, count)))


def _limits(model: Any, count: Totals) -> Iterator[str]:
    """What the numbers of a plan leave out, for models unlike those with a family file."""
    if getattr(model.config, "is_encoder_decoder", False):
        yield "FLOPs are for as many tokens on either side, without what the decoder's attention to the encoder multiplies"
    if count.matrices < count.paper / 2:
        yield (
            f"the matrices found hold {count.matrices / count.paper:.0%} of the parameters outside of the word table: what is "
            "no Linear (a mixture's experts, a convolution) stays as it is and is not in the FLOPs"
        )


def width(model: Any, sites: Sequence[Site]) -> int:
    """That of the hidden states; a model whose width changes on the way names none."""
    return getattr(model.config.get_text_config(), "hidden_size", None) or min(sites[0].i, sites[0].o)


def _key(site: Site, grouping: str) -> str:
    """Which group a site falls into, by the group's name. Words of the model's own are in capitals: transformers renames
    "layers" or "attention.query" wherever they stand in the key of a weight, those of factors too."""
    if grouping == "all":
        return "all"
    if grouping == "role":
        return site.role.replace(".", "_").upper()
    if grouping == "none":
        return site.path.replace(".", "_").upper()
    match = re.fullmatch(r"layers:([1-9]\d*)", grouping)
    if match is None:
        raise PlanError(f'grouping must be all, role, layers:K or none, got "{grouping}": write for example layers:3')
    first = site.layer // int(match[1]) * int(match[1])
    return f"LAYERS_{first}"


def _tile(site: Site, rule: str, hidden: int) -> tuple[int, int]:
    if rule == "whole":
        return site.i, site.o
    if rule == "square":
        square = site.i % hidden == 0 and site.o % hidden == 0
        return (hidden, hidden) if square else (site.i, site.o)
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", rule)
    if match is None:
        raise PlanError(f'a tile must be square, whole or IxO, got "{rule}": write for example 384x384')
    i, o = int(match[1]), int(match[2])
    if site.i % i or site.o % o:
        raise PlanError(
            f"tiles must divide every matrix that takes part, got {i}x{o} for {site.path} ({site.i} x {site.o}): "
            "try square or whole"
        )
    return i, o


def _groups(method: Method, buckets: dict[tuple[str, int, int], list[Site]]) -> tuple[list[Group], list[str]]:
    several = len({(i, o) for _, i, o in buckets}) > 1
    groups, notes, misfits = [], [], []
    for (key, i, o), sites in buckets.items():
        counts = Counter({s.layer: 0 for s in sites})
        for s in sites:
            counts[s.layer] += (s.i // i) * (s.o // o)
        n = counts.total()
        asked = method.form(n, next(iter(counts.values())) if len(set(counts.values())) == 1 else None)
        form = asked.within(n, i, o)
        group = Group(f"{key}_{i}x{o}" if several else key, form, i, o, tuple(sites))
        if form == asked:
            asked.check(n, i, o)
            if group.parameters >= group.dense:
                notes.append(
                    f"{group.name} ({n} tiles of {i} x {o}) saves nothing: {group.parameters:,} for {group.dense:,} parameters"
                )
        else:
            misfits.append((asked, group))
            if group.parameters >= group.dense:
                notes.append(f"{group.name} ({n} tiles of {i} x {o}) stays dense: the form takes more than it saves there")
                continue
            notes.append(f"{group.name} ({n} tiles of {i} x {o}) takes {describe(form)}: the largest that fits it")
        groups.append(group)
    if misfits and len(misfits) == len(buckets):
        asked, group = misfits[0]
        asked.check(group.n, group.i, group.o)
    return groups, notes


def _embedding_group(model: Any, rank: int) -> Group:
    if model.get_output_embeddings() is not None:
        raise PlanError(
            f"word vectors can be factored in a model without a language-model head, got {type(model).__name__}: its "
            "head reads the same table; leave --embeddings out, or compress the base model"
        )
    site = find_embedding(model.base_model)
    form = LowRank(rank)
    form.check(1, site.i, site.o)
    return Group("embeddings", form, site.i, site.o, (site,))
