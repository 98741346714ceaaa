"""Curves of the general stage: several forms, starts and presets on one model and one text, the same number of tokens each.

    python benchmarks/general_stage.py MODEL --text TRAIN.txt --held-out VALID.txt --cells CELL,CELL,... [--tokens N] [--jobs 4]

A cell is METHOD:TILE:START:PRESET[:KEY=VALUE...], for example II-36:whole:activation:tenfold or III-139:square:random:paper.
Each runs `tenfold compress`, then `tenfold distill`, in processes of their own, `--jobs` of them at once; so seconds are those
of a shared device. `error` and `cosine` are measured afterwards on held-out text, as in initialisation.py, before and after
training. Writes general-NAME.json (rows are added to what is there) and prints a Markdown table.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModel, AutoTokenizer

import tenfold
from tenfold.calibration import text_batches

sys.path.insert(0, str(Path(__file__).parent))
from initialisation import errors, hidden


def tenfold_command(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "tenfold", *arguments, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(arguments)}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_cell(cell: str, arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    method, tile, start, preset, *settings = cell.split(":")
    folder = work / cell.replace(":", "_").replace("=", "_")
    text = str(arguments.text)
    compressed = tenfold_command(
        "compress", arguments.model, f"{folder}-start", "--method", method, "--tile", tile, "--init", start, "--text", text,
        "--tokens", "32768",
    )  # fmt: skip
    more = [part for setting in settings for part in ("--set", setting)]
    taught = tenfold_command(
        "distill", f"{folder}-start", f"{folder}-taught", "--teacher", arguments.model, "--text", text, "--preset", preset,
        "--tokens", str(arguments.tokens), *more,
    )  # fmt: skip
    print(f"{cell}: last {taught['curve'][0]['last']:.3f} -> {taught['curve'][-1]['last']:.3f}", file=sys.stderr, flush=True)
    return {
        "cell": cell,
        "parameters": compressed["parameters"]["matrices"],
        "tokens": taught["tokens"],
        "seconds": taught["seconds"],
        "curve": taught["curve"],
        "folders": (f"{folder}-start", f"{folder}-taught"),
    }


@torch.no_grad()
def measure(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Each student before and after, on text that neither calibration nor training saw."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    held_out = text_batches(tokenizer, arguments.held_out, 32768, 128)
    reference = hidden(AutoModel.from_pretrained(arguments.model, dtype=torch.float32).to(device).eval(), held_out)
    for row in rows:
        for when, folder in zip(("before", "after"), row.pop("folders"), strict=True):
            student = AutoModel.from_pretrained(folder, dtype=torch.float32).to(device).eval()
            row[when] = errors(hidden(student, held_out), reference)


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| cell | matrices kept | tokens | before | after |", "|---|---|---|---|---|"]
    for row in rows:
        before, after = (f"{row[when]['error']:.3f} / {row[when]['cosine']:.3f}" for when in ("before", "after"))
        lines.append(f"| {row['cell']} | {row['parameters']['ratio']:.3f} | {row['tokens'] / 1e6:.1f}M | {before} | {after} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--cells", required=True)
    parser.add_argument("--tokens", type=int, default=20_000_000)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    start = time.time()
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda cell: run_cell(cell, arguments, Path(work)), arguments.cells.split(",")))
        measure(rows, arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / f"general-{Path(arguments.model).name}.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"rows": [], "commands": []}
    for row in rows:
        row["jobs"] = arguments.jobs
    result = {
        "model": Path(arguments.model).name,
        "commands": [*before["commands"], ["python", "benchmarks/general_stage.py", Path(arguments.model).name, *sys.argv[2:]]],
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "tenfold": tenfold.__version__},
        "rows": [row for row in before["rows"] if row["cell"] not in {r["cell"] for r in rows}] + rows,
    }
    file.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(table(rows))
    print(f"{time.time() - start:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()
