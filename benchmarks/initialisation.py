"""How far each form and each start is from the original before any training.

    python benchmarks/initialisation.py MODEL --text TRAIN.txt --held-out VALID.txt [--sizes 1/2,1/7,1/48]
        [--starts random,hosvd,hooi,activation,recollected] [--out FOLDER]

For every size (of the matrices) and every form the planner offers at that size: the error of the last hidden states on
held-out text, mean square over variance (1 is as bad as a constant), and the mean cosine of the mean-pooled vectors with the
original's. Runs on a CUDA device where there is one. Writes initialisation-NAME.json and prints a Markdown table.
"""

import argparse
import copy
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import cosine_similarity
from transformers import AutoTokenizer

import tenfold
from tenfold.calibration import Batch, calibrate, text_batches
from tenfold.checkpoints import find, load
from tenfold.planning import Candidate, plan_model
from tenfold.recipe import Compress

STARTS = ("random", "hosvd", "hooi", "activation", "recollected")


@torch.no_grad()
def hidden(model: Any, batches: list[Batch]) -> torch.Tensor:
    device = next(model.parameters()).device
    return torch.cat([model.base_model(**{k: v.to(device) for k, v in b.items()}).last_hidden_state.float() for b in batches])


def errors(ours: torch.Tensor, reference: torch.Tensor) -> dict[str, float]:
    return {
        "error": float((ours - reference).square().mean() / reference.var()),
        "cosine": float(cosine_similarity(ours.mean(1), reference.mean(1)).mean()),
    }


def cells(
    model: Any,
    candidate: Candidate,
    text: list[Batch],
    held_out: list[Batch],
    reference: torch.Tensor,
    starts: list[str],
) -> dict[str, Any]:
    """One row: every start for one plan."""
    calibration = calibrate(model, candidate.plan, text)
    row: dict[str, Any] = {}
    for start in starts:
        if start == "hooi" and candidate.plan.method.startswith("II-"):
            continue  # a private SVD has nothing to alternate
        network = copy.deepcopy(model)
        began = time.perf_counter()
        init, recollect = ("activation", True) if start == "recollected" else (start, False)
        tenfold.compress_(network, candidate.plan, init=init, calibration=calibration, batches=text, recollect=recollect)
        seconds = time.perf_counter() - began
        row[start] = {**errors(hidden(network, held_out), reference), "seconds": round(seconds, 2)}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    head = f"| size | form | tile | matrices | {' | '.join(STARTS)} |"
    lines = [head, "|---" * (4 + len(STARTS)) + "|"]
    for row in rows:
        shown = [
            f"{row['starts'][s]['error']:.2f} / {row['starts'][s]['cosine']:.2f}" if s in row["starts"] else "-" for s in STARTS
        ]
        lines.append(
            f"| {row['size']} | {row['method']} | {row['tile']} | {row['parameters'] / 1e6:.2f}M | {' | '.join(shown)} |"
        )
    return "\n".join(lines)


def options(arguments: argparse.Namespace) -> list[str]:
    """What the numbers depend on; files by their names, wherever they lay."""
    words = ["--text", arguments.text.name, "--held-out", arguments.held_out.name, "--sizes", arguments.sizes]
    return [*words, "--starts", arguments.starts, "--tokens", str(arguments.tokens)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--sizes", default="1/2,1/7,1/48")
    parser.add_argument("--starts", default=",".join(STARTS), help="some of them, for a quick look")
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    source = find(arguments.model, weights=True)
    model = load(source).float().to(device)
    tokenizer = AutoTokenizer.from_pretrained(source.folder)
    text = text_batches(tokenizer, arguments.text, arguments.tokens, 128)
    held_out = text_batches(tokenizer, arguments.held_out, 16384, 128)
    reference = hidden(model, held_out)
    rows = []
    for size in arguments.sizes.split(","):
        for candidate in plan_model(model, Compress(to=size, of="matrices")):
            starts = cells(model, candidate, text, held_out, reference, arguments.starts.split(","))
            plan = candidate.plan
            kept = sum(group.parameters for group in plan.groups)
            rows.append({"size": size, "method": plan.method, "tile": candidate.tile, "parameters": kept, "starts": starts})
            print(f"{size} {plan.method} {candidate.tile}: {starts}", file=sys.stderr, flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = {
        "model": Path(arguments.model).name,
        "command": ["python", "benchmarks/initialisation.py", Path(arguments.model).name, *options(arguments)],
        "tokens": arguments.tokens,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "tenfold": tenfold.__version__},
        "rows": rows,
    }
    name = f"initialisation-{Path(arguments.model).name}.json"
    (arguments.out / name).write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
