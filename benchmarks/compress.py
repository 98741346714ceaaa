"""Time and peak memory of compressing: BERT-base's shape by HOOI and by activations, and a Llama of a billion parameters.

    python benchmarks/compress.py [--only hooi,activation,llama] [--json FILE]

Weights are random: the work does not depend on their values. Every case runs `tenfold compress` in a process of its own, so
its peak memory is that of what a user runs; "beyond the model" subtracts the weights' bytes and an empty process (imports).
CPU seconds are of all threads together; unlike seconds, other programs on the machine hardly change them. FILE grows case by
case, and keeps those that an earlier run on the same machine made.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers
from transformers import BertConfig, BertModel, BertTokenizer, LlamaConfig, LlamaForCausalLM

WORDS = [f"word{k}" for k in range(2000)]


def bert_folder(folder: Path) -> Path:
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(vocabulary)), add_pooling_layer=False).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    generator = torch.Generator().manual_seed(0)
    picks = torch.randint(len(WORDS), (600, 64), generator=generator).tolist()
    (folder / "corpus.text").write_text("\n".join(" ".join(WORDS[k] for k in row) for row in picks), encoding="utf-8")
    return folder


def llama_folder(folder: Path) -> Path:
    """22 layers x 2048, grouped-query attention, gated FFN of 5632: 1.1 billion parameters in bfloat16, five shards."""
    config = LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        intermediate_size=5632,
        vocab_size=32000,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder, max_shard_size="480MB")
    return folder


def measure(command: list[str]) -> dict[str, float]:
    """Seconds and peak bytes of one process, measured by a parent that has no other child."""
    code = (
        "import resource, subprocess, sys, json, time; t = time.time();"
        "r = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); u = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(json.dumps([r.returncode, time.time() - t, u.ru_utime + u.ru_stime, u.ru_maxrss * 1024]))"
    )
    output = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True).stdout
    status, seconds, cpu, peak = json.loads(output.splitlines()[-1])
    if status:
        raise SystemExit(f"failed with {status}: {' '.join(command)}")
    return {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "peak_gb": round(peak / 1e9, 2)}


def tenfold(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "tenfold", *map(str, arguments)]


def cases(only: set[str], work: Path) -> Iterator[tuple[str, dict[str, float]]]:
    bert = work / "bert"
    if only & {"hooi", "activation"}:
        bert_folder(bert)
    for name in ("III-384", "IV-72-384") if "hooi" in only else ():
        yield f"BERT-base {name}, HOOI", run(bert, work, "--method", name, "--init", "hooi")
    for name in ("III-384", "IV-72-384", "II-192") if "activation" in only else ():
        text = ("--init", "activation", "--text", bert / "corpus.text")
        yield f"BERT-base {name}, activation", run(bert, work, "--method", name, *text)
    if "llama" in only:
        llama = llama_folder(work / "llama")
        shards = len(list(llama.glob("*.safetensors")))
        for init in ("hosvd", "hooi"):
            name = f"Llama 1.1B in {shards} shards, III-512, {init.upper()}"
            yield name, run(llama, work, "--method", "III-512", "--init", init)


def run(model: Path, work: Path, *options: str | Path) -> dict[str, float]:
    weights = sum(f.stat().st_size for f in model.glob("*.safetensors"))
    print(f"running {model.name} {' '.join(map(str, options[:4]))} ...", file=sys.stderr)
    result = measure(tenfold("compress", model, work / "out", "--force", *options))
    return {**result, "weights_gb": round(weights / 1e9, 2)}


def machine() -> dict[str, str | int]:
    """What the numbers hold for. A case's own `load` is how many processes wanted a core when it ended."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def table(rows: dict[str, dict[str, float]], imports: float) -> str:
    head = "| case | seconds | CPU seconds | peak GB | beyond the model GB |"
    lines = [head, "|---|---|---|---|---|"]
    for name, row in rows.items():
        beyond = row["peak_gb"] - row["weights_gb"] - imports
        cells = (f"{row['seconds']:.0f}", f"{row['cpu_seconds']:.0f}", f"{row['peak_gb']:.2f}", f"{beyond:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="hooi,activation,llama")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    earlier = json.loads(arguments.json.read_text(encoding="utf-8")) if arguments.json and arguments.json.exists() else {}
    rows: dict[str, dict[str, float]] = earlier["cases"] if earlier.get("machine") == machine() else {}
    imports = measure([sys.executable, "-c", "import tenfold.pipeline, transformers.modeling_utils"])["peak_gb"]
    with tempfile.TemporaryDirectory() as work:
        for name, row in cases(set(arguments.only.split(",")), Path(work)):
            rows[name] = {**row, "load": round(os.getloadavg()[0], 1)}
            if arguments.json:
                result = {"machine": machine(), "imports_gb": imports, "cases": rows}
                arguments.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(json.dumps(machine()))
    print(table(rows, imports))


if __name__ == "__main__":
    main()
