"""The paper's own rows, to stand beside ours: BERT-base on the test server, where ours are dev scores of another teacher."""

from collections.abc import Iterator

from tenfold.reporting.printed import printed

TASKS = ("SST-2", "MNLI-m", "MNLI-mm", "MRPC", "QNLI", "QQP", "RTE", "STS-B")
SHOWN = ("SST-2", "MRPC", "RTE", "STS-B")
TEACHERS = {"TinyBERT": "TinyBERT-6layer"}
PAPER_COLUMNS = ("the paper's", "Para.", *SHOWN, "average of eight", "retention")


def paper_rows() -> Iterator[list[str]]:
    """As printed; retention is the printed average over that of the model it was made from."""
    tables = {name: printed(name) for name in ("glue", "san-ffn", "tinybert", "averages")}
    averages = {name: float(row["mean of eight"]) for name, row in tables["averages"].cells.items()}
    for name, row in tables["averages"].given.items():
        size = next((table.cells[name]["Para."] for table in tables.values() if "Para." in table.cells.get(name, {})), None)
        if size is None:
            continue
        scores = dict(zip(TASKS, row["scores"].split(), strict=True))
        teacher = TEACHERS.get(name.partition("-")[0], "BERT-base")
        shown = [scores[task] for task in SHOWN]
        yield [name, size, *shown, f"{averages[name]:.1f}", f"{100 * averages[name] / averages[teacher]:.1f}%"]
