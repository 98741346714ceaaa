"""What each part of the presets brings on a task: one student, short stages that differ in one part, Spearman on STS-B.

    python benchmarks/preset_parts.py MODEL --text TRAIN.txt --glue GLUE [--to 1/7] [--tokens 60000] [--seeds 0,1]

MODEL makes sentence vectors. It is compressed once. General stage: each row of GENERAL from there, on the same text; the score
is that of the mean-pooled vectors on dev pairs, without any task stage. Task stage: each row of TASK from what the preset's
general stage left with the same seed, on training pairs without their labels. Rows that the result file has are not made again.
Prints Markdown tables and writes parts-NAME.json.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

import tenfold
from tenfold.checkpoints import find, load
from tenfold.distillation.running import distill_folder
from tenfold.distillation.stage import parse_stage
from tenfold.evaluation import predict
from tenfold.pipeline import compress_folder, tokenizer_of
from tenfold.recipe import Compress, Recipe
from tenfold.records import write_json
from tenfold.tasks import Rows, TaskSpec, encode, load_task, score

HIDDEN, VECTORS = {"name": "hidden"}, {"name": "vectors", "weight": 0.5}
RELATIONS = {"name": "relations", "layers": "last"}
LAST, SCORES = {"name": "hidden", "layers": "last"}, {"name": "scores", "layers": "last"}
RATES = {"lr": 1e-3, "lr_rest": 5e-4, "warmup": 0.05}
"""The general preset's own undo the start in stages as short as these, unless they rise for longer."""
PRESET, UNTAUGHT = "hidden states and vectors of every layer (the preset)", "not taught"
GENERAL: dict[str, dict[str, Any]] = {
    "last hidden states": {"losses": [LAST]},
    "last hidden states and last scores (the paper's)": {"losses": [LAST, SCORES]},
    "hidden states of every layer": {"losses": [HIDDEN]},
    PRESET: {"losses": [HIDDEN, VECTORS]},
    "hidden states of every layer, last relations": {"losses": [HIDDEN, RELATIONS]},
    "the preset and last relations": {"losses": [HIDDEN, VECTORS, RELATIONS]},
    "a quarter of the steps block by block, then the preset": {
        "phases": [{"share": 1, "local": True}, {"share": 3, "losses": [HIDDEN, VECTORS]}]
    },
    "the preset at four times the rate": {"losses": [HIDDEN, VECTORS], "lr": 4e-3, "lr_rest": 2e-3},
    "the paper's losses at its rate": {
        "losses": [LAST, SCORES],
        "lr": 1e-4,
        "lr_rest": 1e-4,
        "warmup": 0.1,
        "weight_decay": 0.01,
    },
}
TASK: dict[str, list[dict[str, Any]]] = {
    "the teacher's answers": [{"name": "answers"}],
    "hidden states of every layer": [HIDDEN],
    "both (the preset)": [{"name": "answers"}, HIDDEN],
}  # fmt: skip


class Bench:
    """The models, the rows and the results of one run; `keep` writes the results after each row."""

    def __init__(self, given: argparse.Namespace, work: Path, rows: dict[str, Any], keep: Callable[[], None]) -> None:
        self.given, self.work, self.rows, self.keep = given, work, rows, keep
        glue = load_task(TaskSpec(task="stsb", data_dir=str(given.glue)))
        train, dev = glue.train, glue.dev["dev"]
        spec = TaskSpec(
            train=self._table("train", train.take(range(0, len(train), max(1, len(train) // given.pairs)))),
            dev=self._table("dev", dev.take(range(0, len(dev), given.every))),
            kind="embedding",
            length=64,
        )
        self.data, self.spec = load_task(spec), spec.model_dump(exclude_none=True)
        self.encoded = encode(self.data.dev["dev"], self.data.task, tokenizer_of(find(given.model, weights=True)), 64)
        self.text = {"text": str(given.text), "tokens": given.tokens, "length": 64, "held_out": 32}

    def _table(self, name: str, rows: Rows) -> str:
        path = self.work / f"{name}.jsonl"
        lines = [json.dumps({"sentence1": a, "sentence2": b, "score": label}) for (a, b), label in rows]
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    def spearman(self, folder: str) -> float:
        outputs = predict(load(find(folder, weights=True)), self.encoded)
        return score(self.data.task, outputs, self.data.dev["dev"].labels)["spearman"]

    def compressed(self) -> str:
        asked = Compress(to=self.given.to, of="matrices", init="activation", text=str(self.given.text), length=64)
        out = self.work / "compressed"
        compress_folder(self.given.model, out, Recipe(model=self.given.model, compress=asked), False, lambda _: None)
        return str(out)

    def run(self, start: str) -> None:
        """Seed by seed, so that what a killed run has is whole seeds."""
        for seed in self.given.seeds:
            taught = self.work / f"preset-{seed}"
            if any(self._key("task", name, seed) not in self.rows for name in TASK):
                self.row("general", PRESET, seed, start, self.text | GENERAL[PRESET], taught)
            for name, losses in TASK.items():
                stage = {"stage": "task", "task": self.spec, "epochs": 1, "losses": losses}
                self.row("task", name, seed, str(taught), stage, self.work / "task")
            for name, stage in GENERAL.items():
                self.row("general", name, seed, start, self.text | stage, self.work / "general")

    def row(self, stage: str, name: str, seed: int, start: str, settings: Mapping[str, Any], out: Path) -> None:
        """OUT taught from `start`; `last` is the error of its last hidden states on rows that the stage holds out."""
        key = self._key(stage, name, seed)
        if key in self.rows and out.name != f"preset-{seed}":
            return
        asked = parse_stage({"batch": 8, "evaluations": 1, "seed": seed, **RATES, **settings})
        result = distill_folder(start, out, self.given.model, asked, force=True)
        self.rows[key] = {
            "stage": stage,
            "part": name,
            "seed": seed,
            "spearman": self.spearman(str(out)),
            "last": result.curve[-1]["last"],
            "steps": result.steps,
            "tokens": result.tokens,
            "seconds": round(result.seconds, 1),
        }
        self.keep()
        print(f"{key}: {self.rows[key]}", file=sys.stderr, flush=True)

    @staticmethod
    def _key(stage: str, name: str, seed: int) -> str:
        return f"{stage}: {name}: seed {seed}"


def seeds_of(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def table(rows: Mapping[str, Mapping[str, Any]], stage: str) -> str:
    lines = ["| part | Spearman | each seed | error of last hidden states |", "|---|---|---|---|"]
    for name in GENERAL if stage == "general" else TASK:
        own = [row for row in rows.values() if (row["stage"], row["part"]) == (stage, name)]
        scores = [row["spearman"] for row in own]
        error = statistics.mean(row["last"] for row in own)
        each = ", ".join(f"{value:.1f}" for value in scores)
        lines.append(f"| {name} | {statistics.mean(scores):.1f} | {each} | {error:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--glue", type=Path, required=True, help="a folder with STS-B in GLUE's layout")
    parser.add_argument("--to", default="1/7")
    parser.add_argument("--tokens", type=int, default=60_000)
    parser.add_argument("--pairs", type=int, default=600, help="of STS-B's training rows, without labels")
    parser.add_argument("--every", type=int, default=2, help="how many of its dev rows there are for each that is scored")
    parser.add_argument("--seeds", type=seeds_of, default=[0, 1])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    name = Path(arguments.model).name
    file = arguments.out / f"parts-{name}.json"
    settings = {key: getattr(arguments, key) for key in ("to", "tokens", "pairs", "every")}
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    found: dict[str, dict[str, Any]] = before["rows"] if before.get("settings") == settings else {}
    result: dict[str, Any] = {
        "command": ["python", "benchmarks/preset_parts.py", name, *sys.argv[2:]],
        "model": name,
        "settings": settings,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "tenfold": tenfold.__version__},
        "rows": found,
    }
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, Path(folder), found, lambda: write_json(file, result))
        start = bench.compressed()
        result |= {"original": bench.spearman(arguments.model), UNTAUGHT: bench.spearman(start)}
        bench.run(start)
    print(f"Spearman of the original {result['original']:.1f}, {UNTAUGHT} {result[UNTAUGHT]:.1f}\n")
    print("\n\n".join(table(found, stage) for stage in ("general", "task")))


if __name__ == "__main__":
    main()
