"""The general stage of several students at once: every batch goes through the teacher once, then through each student.

A stage is level and then decays (`Schedule`). The state at the end of the level part, the trunk, stays: a longer stage goes on
from it, in this run or in another. What is killed, or cut by a budget, goes on from its last save to the same weights, bit for
bit on a CPU.

    WORK/CAMPAIGN/trunks/KEY/start.safetensors              what compression leaves
    WORK/CAMPAIGN/trunks/KEY/trunk.safetensors              weights and the optimiser's two moments, at or before the decay
    WORK/CAMPAIGN/trunks/KEY/tail-TOKENS-DECAY.safetensors  the same within the decay of one stage
    WORK/CAMPAIGN/students/KEY.safetensors                  the student
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from campaigns.factors import fill_, own_tensors, read_facts, read_student, skeleton_of, write_tensors
from campaigns.places import Budget, Places, Say, done
from campaigns.rows import rows_of
from campaigns.students import begun, plan_of_row, save_student, size_of, student_file
from campaigns.table import Start, start_of
from tenfold.checkpoints import load
from tenfold.distillation.legs import LAST, Leg, Models, legs, wanted
from tenfold.distillation.parts import Part
from tenfold.distillation.probing import Facts, probe
from tenfold.distillation.trace import Trace, Tracer, Wanted
from tenfold.errors import TenfoldError
from tenfold.nn import FactorBank
from tenfold.records import Record, digest, read_json, write_json
from tenfold.text import Corpus

PROBED, AT_A_TIME = 64, 8
MOMENTS = ("exp_avg", "exp_avg_sq")
Batch = Mapping[str, Tensor]


def rate(step: int, first: int, steps: int, warmup: int) -> float:
    """The factor on the rates: up within `warmup` steps, level, from step `first` on down to 0, the step after the last."""
    rising = min(1.0, (step + 1) / (warmup + 1))
    return rising if step < first else rising * (steps - step) / (steps - first)


@dataclass
class Pupil:
    """A student, how far it is, and its optimiser. alone, cpu: its share of the seconds (of the processor) of all."""

    row: str
    start: Start
    network: Any
    home: Path
    steps: int
    first: int
    warmup: int
    leg: Leg
    facts: Facts
    tracer: Tracer
    optimizer: torch.optim.Optimizer
    named: dict[str, torch.nn.Parameter]
    step: int = 0
    seconds: float = 0.0
    alone: float = 0.0
    cpu: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    mean: dict[str, Tensor] = field(default_factory=dict)
    diverged: str | None = None

    @property
    def over(self) -> bool:
        return self.step >= self.steps or self.diverged is not None

    def loss(self, seen: Trace, target: Trace) -> Tensor:
        return torch.stack([term.weight * part.mean for term, part in self.parts(seen, target)]).sum()

    def parts(self, seen: Trace, target: Trace) -> Iterator[tuple[Any, Part]]:
        """Of each loss the sum over layers and kinds of vectors, with as large a count, so that its mean is theirs."""
        for term in self.leg.terms:
            found = [*term.parts(seen, target, self.facts.projections, self.facts.scales)]
            yield term, sum(found[1:], start=found[0])

    def learn(self, loss: Tensor) -> None:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.named.values(), self.start.schedule.clip)
        factor = rate(self.step, self.first, self.steps, self.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = group["full"] * factor
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        for name, mean in self.mean.items():
            mean.lerp_(self.named[name].detach(), 1 - (self.start.schedule.average or 0.0))

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network with its running mean in place of its weights, where it has one."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name in self.mean:
            self.named[name].data, self.mean[name] = self.mean[name], self.named[name].data

    def settle(self) -> None:
        """For good, at the end."""
        self._swap()
        self.mean.clear()

    @property
    def trunk(self) -> Path:
        """Of the level part: it belongs to stages of any length."""
        return self.home / "trunk.safetensors"

    @property
    def tail(self) -> Path:
        """Of the decay, which belongs to this stage alone."""
        assert self.start.general is not None
        return self.home / f"tail-{self.start.general.tokens}-{self.start.schedule.decay:g}.safetensors"

    def save(self) -> None:
        state = self.optimizer.state
        moments = {f"{kind}/{name}": state[p][kind].cpu() for name, p in self.named.items() if p in state for kind in MOMENTS}
        weights = {f"weight/{name}": p.detach().cpu() for name, p in self.named.items()}
        means = {f"mean/{name}": mean.cpu() for name, mean in self.mean.items()}
        facts = {key: getattr(self, key) for key in ("step", "seconds", "alone", "cpu", "curve")}
        write_tensors(self.trunk if self.step <= self.first else self.tail, {**weights, **moments, **means}, facts)

    def resume(self) -> None:
        """From the decay where it was under way, else from the level part, else from the start."""
        path = self.tail if self.tail.is_file() else self.trunk
        if not path.is_file():
            return
        facts, tensors = read_facts(path), load_file(path)
        if path == self.trunk and facts["step"] > self.first:
            raise TenfoldError(
                f"a shorter stage decays from an earlier moment, got {self.row} at step {self.first}, where its level part has "
                f"gone on to step {facts['step']}: teach shorter ones first, or remove {path}"
            )
        with torch.no_grad():
            for name, parameter in self.named.items():
                parameter.copy_(tensors[f"weight/{name}"])
            for name, mean in self.mean.items():
                mean.copy_(tensors[f"mean/{name}"])
        order = [p for group in self.optimizer.param_groups for p in group["params"]]
        names = {id(p): name for name, p in self.named.items()}
        held = {k: names[id(p)] for k, p in enumerate(order) if f"{MOMENTS[0]}/{names[id(p)]}" in tensors}
        state = {
            k: {"step": torch.tensor(float(facts["step"])), **{kind: tensors[f"{kind}/{name}"] for kind in MOMENTS}}
            for k, name in held.items()
        }
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        for key, value in facts.items():
            setattr(self, key, value)


class Class:
    """Students that learn from the same rows in the same order, and their teacher."""

    def __init__(self, places: Places, rows: Sequence[str], say: Say) -> None:
        start = start_of(places.campaign, rows[0])
        assert start.general is not None and start.general.batch is not None
        self.places, self.say, self.stage, self.schedule = places, say, start.general, start.schedule
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        corpus = rows_of(places, self.stage, start.schedule, say)
        corpus.require(self.stage.held_out + start.general.batch)
        self.train, self.held_out = corpus.split(self.stage.held_out)
        self.batch, self.per_step = start.general.batch, start.general.batch * corpus.tokens / len(corpus)
        self.teacher = load(places.original).float().to(self.device).eval().requires_grad_(False)
        self.pupils = [self._pupil(row) for row in rows]
        if self.device.type == "cuda":
            self.teacher.bfloat16()
        layers: dict[str, frozenset[int]] = {}
        for pupil in self.pupils:
            for what, found in wanted(pupil.leg, 1).layers.items():
                layers[what] = layers.get(what, frozenset()) | found
        self.tracer = Tracer(self.teacher, Wanted(layers))
        self._order: tuple[int, Tensor] = (-1, torch.empty(0))

    def _pupil(self, row: str) -> Pupil:
        start, network = start_of(self.places.campaign, row), self._network(row).to(self.device).eval()
        stage, schedule = start.general, start.schedule
        assert stage is not None and stage.lr is not None and stage.lr_rest is not None
        if stage.freeze_embeddings:
            network.base_model.get_input_embeddings().requires_grad_(False)
        depths = [model.config.get_text_config().num_hidden_layers for model in (network, self.teacher)]
        steps = max(1, round(stage.tokens / self.per_step))
        found = legs(stage, Models(depths[0], depths[1]), steps)
        if len(found) > 1 or found[0].local:
            raise TenfoldError(f"the general stage of a campaign has one phase that is not local, got another for {row}")
        facts = probe(network, self.teacher, found, [*self._batches(self.held_out, range(min(PROBED, len(self.held_out))))])
        named = {name: p for name, p in network.named_parameters() if p.requires_grad}
        groups = [*_groups(network, named, start)]
        optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=self.device.type == "cuda")
        for group in optimizer.param_groups:
            group["full"] = group["lr"]
        home = self.places.home / "trunks" / start.trunk
        first, warmup = steps - round(schedule.decay * steps), round(schedule.warmup / self.per_step)
        tracer = Tracer(network, wanted(found[0], 0))
        pupil = Pupil(row, start, network, home, steps, first, warmup, found[0], facts, tracer, optimizer, named)
        if schedule.average is not None:
            pupil.mean = {name: p.detach().clone() for name, p in named.items()}
        pupil.resume()
        return pupil

    def _network(self, row: str) -> Any:
        """The start, which is made once: a later run goes on from the same bits, on whatever machine."""
        start, plan = start_of(self.places.campaign, row), plan_of_row(self.places, row)
        file = self.places.home / "trunks" / start.trunk / "start.safetensors"
        if not file.is_file():
            before = self.places.campaign.rows[row].begin
            if before is not None and not student_file(self.places, before).is_file():
                raise TenfoldError(f"{row} begins as the student of {before}, got none: run general --rows {before} first")
            self.say(f"{row}: making its start")
            network = begun(self.places, row, self.say)
            write_tensors(file, own_tensors(network, self.places.original, start.layers), {})
        network = skeleton_of(self.places.original, plan, start.layers)
        fill_(network, load_file(file), plan)
        return network

    def teach(self, budget: Budget) -> None:
        """All pupils to the end of their stages. Those that are behind catch up first, then all share the teacher's pass."""
        every = max(1, round(self.schedule.measure / self.per_step))
        for pupil in self.pupils:
            if not pupil.curve:
                self._measure([pupil])
        while active := self._next():
            begun, busy = time.perf_counter(), time.process_time()
            batch = self._rows(active[0].step)
            with torch.no_grad(), self._precision():
                target = self.tracer(batch)
            for pupil in active:
                with self._precision():
                    loss = pupil.loss(pupil.tracer(batch), target)
                pupil.learn(loss)
            for pupil in active:
                pupil.seconds += time.perf_counter() - begun
                pupil.alone += (time.perf_counter() - begun) / len(active)
                pupil.cpu += (time.process_time() - busy) / len(active)
            step = active[0].step
            due = [p for p in active if step % every == 0 or step in (p.first, p.steps)]
            if due:
                self._measure(due)
            if budget.spent:
                for pupil in self.pupils:
                    if not pupil.over:
                        pupil.save()
                budget.check()

    def _next(self) -> list[Pupil]:
        left = [pupil for pupil in self.pupils if not pupil.over]
        return [pupil for pupil in left if pupil.step == min(each.step for each in left)]

    def _measure(self, pupils: Sequence[Pupil]) -> None:
        """On the held-out rows, then saved; a student whose weights are not finite any more is out."""
        for pupil, errors in zip(pupils, self.errors(pupils), strict=True):
            pupil.curve.append(
                {"step": pupil.step, "tokens": round(pupil.step * self.per_step), "seconds": round(pupil.alone, 1), **errors}
            )
            self.say(f"{pupil.row}: step {pupil.step} of {pupil.steps}, last {errors['last']:.4f}, {pupil.alone:.0f} s")
            if not math.isfinite(errors["loss"]):
                pupil.diverged = f"the loss must stay finite, got {errors['loss']} at step {pupil.step}"
            elif pupil.step:
                pupil.save()

    @torch.no_grad()
    def errors(self, pupils: Sequence[Pupil]) -> list[dict[str, float]]:
        """loss, and last: that of the last hidden states over the teacher's variance, whatever the losses are."""
        sums: list[dict[str, Part]] = [{} for _ in pupils]
        for batch in self._batches(self.held_out, range(len(self.held_out))):
            with self._precision():
                target = self.tracer(batch)
                for pupil, found in zip(pupils, sums, strict=True):
                    with pupil.averaged():
                        seen = pupil.tracer(batch)
                    terms = [(term.name, part) for term, part in pupil.parts(seen, target)]
                    last = [*LAST.parts(seen, target, pupil.facts.projections, pupil.facts.scales)]
                    for name, part in (*terms, ("last", last[0])):
                        found[name] = found[name] + part if name in found else part
        means = [{name: float(part.mean) for name, part in found.items()} for found in sums]
        return [
            {"last": each["last"], "loss": sum(term.weight * each[term.name] for term in pupil.leg.terms)}
            for pupil, each in zip(pupils, means, strict=True)
        ]

    def _rows(self, step: int) -> Batch:
        """Those of a step: every pass has an order of its own, which the seed and the pass tell."""
        each = len(self.train) // self.batch
        number, place = divmod(step, each)
        if self._order[0] != number:
            generator = torch.Generator().manual_seed(1_000_003 * self.stage.seed + number)
            self._order = number, torch.randperm(len(self.train), generator=generator)
        chosen = self._order[1][place * self.batch : (place + 1) * self.batch].tolist()
        return self._moved(self.train.collate([self.train[k] for k in chosen]))

    def _batches(self, corpus: Corpus, chosen: range) -> Iterator[Batch]:
        for first in chosen[::AT_A_TIME]:
            yield self._moved(corpus.collate([corpus[k] for k in chosen[first : first + AT_A_TIME]]))

    def _moved(self, batch: Batch) -> Batch:
        return {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.items()}

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")


def _groups(network: Any, named: Mapping[str, Any], start: Start) -> Iterator[dict[str, Any]]:
    """Factors at the rate of their name, the rest at its own; matrices decay, vectors do not."""
    factors = {
        id(p): name.removeprefix("shared_").removeprefix("private_")
        for module in network.modules()
        if isinstance(module, FactorBank)
        for name, p in module.named_parameters()
    }
    stage, found = start.general, dict[tuple[str | None, bool], list[Any]]()
    assert stage is not None and stage.lr is not None and stage.lr_rest is not None and stage.weight_decay is not None
    for parameter in named.values():
        found.setdefault((factors.get(id(parameter)), parameter.ndim > 1), []).append(parameter)
    if strange := start.schedule.rates.keys() - set(factors.values()):
        raise TenfoldError(
            f"rates are of factors that a student has ({', '.join(sorted(set(factors.values())))}), got {strange}"
        )
    for (name, decays), parameters in found.items():
        own = stage.lr_rest if name is None else stage.lr * start.schedule.rates.get(name, 1.0)
        yield {"params": parameters, "lr": own, "weight_decay": stage.weight_decay if decays else 0.0}


def teach_all(places: Places, rows: Sequence[str], say: Say, budget: Budget) -> None:
    """The general stages of rows, to students and results, shorter ones first. Rows with the same text share a teacher."""
    left: dict[str, Start] = {}
    for row in rows:
        start = start_of(places.campaign, row)
        if start.general is not None and not _there(places, row, start):
            left[row] = start
    left = {row: start for row, start in left.items() if not _copied(places, row)}
    while left:
        ready = [row for row in left if places.campaign.rows[row].begin not in left]
        [first, *_] = sorted(ready, key=lambda row: left[row].general.tokens)  # type: ignore[union-attr]
        together: dict[str, str] = {}  # one row of a trunk at a time: the next goes on from what this one leaves
        for row in (name for name in ready if _shared(left[name]) == _shared(left[first])):
            together.setdefault(left[row].trunk, row)
        budget.check()
        lesson = Class(places, [*together.values()], say)
        lesson.teach(budget)
        for pupil in lesson.pupils:
            _finish(places, lesson, pupil)
            del left[pupil.row]
        left = {row: start for row, start in left.items() if not _copied(places, row)}


def _there(places: Places, row: str, start: Start) -> bool:
    held = done(places.result(row, "general"), start.to_dict())
    return held is not None and (held["diverged"] is not None or student_file(places, row).is_file())


def _copied(places: Places, row: str) -> bool:
    """Whether another row has the same student, as rows that differ in their task stage do: its result is this one's too."""
    start, file = start_of(places.campaign, row), places.result(row, "general")
    for other in places.campaign.rows:
        held = read_json(places.result(other, "general"))
        if other != row and held is not None and held["settings"] == start.to_dict() and _there(places, other, start):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, {**held, "row": row, "same_as": other})
            return True
    return False


def _shared(start: Start) -> Any:
    """What students have in common that are taught at once: rows, their order, and how long."""
    stage = start.general
    assert stage is not None
    return stage.text, stage.corpus, start.schedule.limit, stage.batch, stage.held_out, start.schedule.measure, stage.tokens


def _finish(places: Places, lesson: Class, pupil: Pupil) -> None:
    before = places.campaign.rows[pupil.row].begin
    tokens = round(pupil.step * lesson.per_step) + (read_facts(student_file(places, before))["tokens"] if before else 0)
    facts: Record = {"hashes": {"corpus": lesson.train.folder.name}}
    if pupil.diverged is None:
        pupil.settle()
        [exact] = lesson.errors([pupil])
        saved = save_student(places, pupil.row, pupil.network, {"tokens": tokens})
        path = student_file(places, pupil.row)
        pupil.network.load_state_dict(read_student(path, places.original, places.hash).state_dict())
        [stored] = lesson.errors([pupil])
        facts = {
            "rounding": {**saved, "last_before": exact["last"], "last": stored["last"]},
            "hashes": {"corpus": lesson.train.folder.name, "file": digest([path])},
        }
    places.write(
        places.result(pupil.row, "general"),
        pupil.start.to_dict(),
        row=pupil.row,
        tokens=tokens,
        steps=pupil.step,
        seconds=round(pupil.seconds, 1),
        alone_seconds=round(pupil.alone, 1),
        cpu_seconds=round(pupil.cpu, 1),
        taught_together=len(lesson.pupils),
        size=size_of(places, pupil.row),
        curve=pupil.curve,
        diverged=pupil.diverged,
        **facts,
    )
    pupil.tail.unlink(missing_ok=True)
