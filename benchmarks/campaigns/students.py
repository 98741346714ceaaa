"""Students before their task stages: starts, and what the general stage left of them, as folders that tasks start from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from campaigns.factors import own_tensors, read_student, rounded, skeleton_of, write_tensors
from campaigns.places import Places, Say, done
from campaigns.rows import rows_of
from campaigns.table import Start, corpus_stage, key_of, start_of
from tenfold.checkpoints import load, skeleton
from tenfold.compression import compress_
from tenfold.errors import TenfoldError
from tenfold.experiments.trimming import parse_layers
from tenfold.finetuning.blocks import block_list
from tenfold.folders import complete_folder
from tenfold.pipeline import copy_beside
from tenfold.planning import MATRICES, MODEL, PAPER, Plan, plan_model
from tenfold.recipe import Compress
from tenfold.records import Record
from tenfold.text import Corpus

AT_A_TIME = 16


def plan_of_row(places: Places, row: str) -> Plan | None:
    start = start_of(places.campaign, row)
    return None if start.compress is None else plan_model(skeleton(places.original), start.compress)[0].plan


def begun(places: Places, row: str, say: Say) -> Any:
    """The student as compression (or the row that it begins as) leaves it. A start that sees activations sees the corpus."""
    start, plan, before = start_of(places.campaign, row), plan_of_row(places, row), places.campaign.rows[row].begin
    if before is not None:
        return read_student(student_file(places, before), places.original, places.hash)
    if plan is None:
        return skeleton_of(places.original, None, start.layers)
    assert start.compress is not None
    network, asked = load(places.original).float(), start.compress
    sees = asked.init in ("auto", "activation")
    batches = [*_calibration(rows_of(places, corpus_stage(places.campaign, row), start.schedule, say), start)] if sees else None
    compress_(network, plan, init=asked.init, batches=batches, rounds=asked.rounds, seed=asked.seed, progress=say)
    return network.eval()


def _calibration(corpus: Corpus, start: Start) -> Iterator[Any]:
    """Rows at even distances, as many as make the tokens that were asked for."""
    wanted = min(len(corpus), max(1, round(start.schedule.calibration * len(corpus) / corpus.tokens)))
    chosen = [k * len(corpus) // wanted for k in range(wanted)]
    for first in range(0, wanted, AT_A_TIME):
        yield corpus.collate([corpus[k] for k in chosen[first : first + AT_A_TIME]])


def student_file(places: Places, row: str) -> Path:
    """What the general stage leaves: named after everything that makes it."""
    start = start_of(places.campaign, row)
    return places.home / "students" / f"{key_of([places.hash, start.to_dict()])}.safetensors"


def size_of(places: Places, row: str) -> Record:
    """Parameters and FLOPs of one row of 128 tokens, as counted by the plan; kept over original of the matrices."""
    plan, network = plan_of_row(places, row), skeleton(places.original)
    if plan is not None:
        dense, flops = plan.flops(1, 128)
        counts = {scope: plan.kept(scope) for scope in (MATRICES, PAPER, MODEL)}
        return {**counts, "kept": plan.ratio(MATRICES), "flops": flops, "flops_kept": flops / dense}
    layers = start_of(places.campaign, row).layers
    assert layers is not None
    depth = len(block_list(network)[1])
    share = len(parse_layers(layers, depth)) / depth
    one = _every_matrix(network)
    assert one.totals is not None
    blocks = sum(p.numel() for p in block_list(network)[1].parameters())
    gone = round(blocks * (1 - share))
    dense, _ = one.flops(1, 128)
    kept = {MATRICES: round(one.totals.matrices * share), PAPER: one.totals.paper - gone, MODEL: one.totals.model - gone}
    return {**kept, "kept": share, "flops": round(dense * share), "flops_kept": share}


def _every_matrix(network: Any) -> Plan:
    """A plan only for its counts of the original."""
    return plan_model(network, Compress(method="II-1", tile="whole"))[0].plan


@torch.no_grad()
def save_student(places: Places, row: str, network: Any, facts: Record) -> Record:
    """The student's file, in the schedule's precision; what was rounded away is in what comes back."""
    start, plan, path = start_of(places.campaign, row), plan_of_row(places, row), student_file(places, row)
    short, lost = rounded(own_tensors(network, places.original, start.layers), start.schedule.dtype)
    about = {"model": places.hash, "plan": plan and plan.to_dict(), "layers": start.layers, "row": row, **facts}
    write_tensors(path, short, about)
    return {"dtype": start.schedule.dtype, "lost": lost, "bytes": path.stat().st_size}


def is_ready(places: Places, row: str) -> bool:
    """Whether tasks can start: there is no general stage, it is over, or it came to a bad end."""
    known = student_file(places, row).is_file() or diverged(places, row) is not None
    return start_of(places.campaign, row).general is None or known


def diverged(places: Places, row: str) -> str | None:
    """Why a general stage has no student."""
    held = done(places.result(row, "general"), start_of(places.campaign, row).to_dict())
    return None if held is None else held["diverged"]


def folder_of(places: Places, row: str, say: Say) -> Path:
    """The whole model folder that task stages start from, made out of the student's file. It can be removed at any time."""
    path = student_file(places, row)
    folder = path.with_suffix("")
    if folder.is_dir():
        return folder
    if not path.is_file():
        if not is_ready(places, row):
            raise TenfoldError(f"tasks need a student after its general stage, got none for {row}: run general --rows {row}")
        say(f"{row}: compressing")
        save_student(places, row, begun(places, row, say), {"tokens": 0})
    network = read_student(path, places.original, places.hash)
    with complete_folder(folder) as partial:
        network.save_pretrained(partial)
        copy_beside(places.original, partial)
    return folder
