"""What docs/exploration.md shows: `tenfold explore` on real models, its numbers in one file, some of its pictures made small.

    python benchmarks/exploration.py all-MiniLM-L6-v2 all-mpnet-base-v2 --text valid.txt --work looked

A folder of looked/ that is there already is taken as it is. Writes results/exploration.json, pictures to docs/, and prints the
tables.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image

HERE = Path(__file__).parent
PICTURES = ("variance-weights", "pairs-weights", "variance-outputs", "modes", "similarity-inputs", "predicted")
"""Those of the last model."""
COLOURS = 256
LONG = {"tiles", "kept", "mean", "curve"}
"""Lists of these names are left out."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--text", required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    found = {Path(model).name: look(model, arguments.text, arguments.work / Path(model).name) for model in arguments.models}
    (HERE / "results/exploration.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name in PICTURES:
        shrink(arguments.work / Path(arguments.models[-1]).name / f"{name}.png", HERE.parent / f"docs/explore-{name}.png")
    print("\n\n".join((halves(found), roles(found), alike(found), *(predictions(found, name) for name in found))))


def look(model: str, text: str, out: Path) -> dict[str, Any]:
    """The record, without what is there for every tile and every step of a curve."""
    if not out.exists():
        subprocess.run([sys.executable, "-m", "tenfold", "explore", model, str(out), "--text", text], check=True)
    record = json.loads((out / "analysis.json").read_text(encoding="utf-8"))
    for group in record["groups"]:
        group["below_ninety"] = [tile["name"] for tile in group["weights"]["tiles"] if tile["half"] < 0.9]
    return thinned({key: record[key] for key in ("command", "versions", "seconds", "groups", "predictions", "suggestion")})


def thinned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: thinned(inner) for key, inner in value.items() if key not in LONG or isinstance(inner, float)}
    if isinstance(value, list):
        return [thinned(inner) for inner in value]
    return round(value, 5) if isinstance(value, float) else value


def shrink(picture: Path, out: Path) -> None:
    """A palette instead of all colours: a third of the bytes."""
    Image.open(picture).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True)


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def halves(found: dict[str, Any]) -> str:
    rows = []
    for view, what in (("weights", "variance"), ("outputs", "output energy on text")):
        rows.append([f"{what}, single blocks", *(spread(of(each)[view]) for each in found.values())])
        for way in ("along columns", "along rows"):
            rows.append([f"{what}, pairs {way}", *(spread(of(each)[view]["pairs"][way]) for each in found.values())])
    for mode in ("slices", "input side", "output side"):
        rows.append([f"energy of the stack, {mode}", *(percent(of(each)["modes"][mode]["half"]) for each in found.values())])
    return table(["held by half of the dimensions", *found], rows)


def roles(found: dict[str, Any]) -> str:
    names = list(of(next(iter(found.values())))["weights"]["roles"])
    rows = [
        [f"{name}, {view}", *(percent(of(each)[view]["roles"][role]["half"]) for role in names)]
        for name, each in found.items()
        for view in ("weights", "outputs")
    ]
    return table(["mean of single blocks", *names], rows)


def alike(found: dict[str, Any]) -> str:
    kinds = ["same matrix", "same block of another layer", "same layer", "other"]
    rows = [
        [f"{name}, {view}", *(f"{of(each)['similarity'][view][kind]:.3f}" for kind in kinds)]
        for name, each in found.items()
        for view in ("slices", "inputs", "outputs")
    ]
    return table(["mean cosine", *kinds], rows)


def predictions(found: dict[str, Any], name: str) -> str:
    rows = [
        [
            each["size"],
            f"**{each['method']}**" if each["recommended"] else each["method"],
            each["tile"],
            f"{each['flops']:.2f}",
            *(f"{'≤ ' * each[f'{kind}_bound']}{percent(each[f'{kind}_error'])}" for kind in ("weight", "output")),
        ]
        for each in found[name]["predictions"]
    ]
    return table([name, "method", "tile", "FLOPs kept", "weights lost", "outputs lost"], rows)


def of(found: dict[str, Any]) -> Any:
    [group] = found["groups"]
    return group


def spread(found: dict[str, Any]) -> str:
    chance = "" if found["half_random"] is None else f"; random numbers {percent(found['half_random'])}"
    return f"{percent(found['half'])} ({percent(found['half_least'])} to {percent(found['half_most'])}){chance}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


if __name__ == "__main__":
    main()
