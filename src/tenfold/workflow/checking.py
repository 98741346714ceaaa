"""What would end a run after hours is looked for in its first seconds."""

import os

from tenfold.checkpoints import find, refuse_compressed
from tenfold.distillation.pairing import teacher_for
from tenfold.errors import TenfoldError
from tenfold.tasks import load_task
from tenfold.text.sources import Spec, sources
from tenfold.workflow.agreeing import held_out
from tenfold.workflow.recipe import Flow


def check_flow(flow: Flow) -> None:
    """The model, the rows with their labels, a given teacher, and all text must be there."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TenfoldError(
            f"a run is one process, got {os.environ['WORLD_SIZE']}: start tenfold distill with torchrun for its stages"
        )
    assert flow.model is not None
    refuse_compressed(find(flow.model, weights=True))
    texts: list[Spec | None] = [flow.start.text, flow.general.text if flow.general else None]
    for text in texts:
        if text is not None:
            sources(text)
    if flow.agree is not None:
        held_out(flow.agree)
    if flow.data is not None:
        task = load_task(flow.data).task
        if flow.teacher is not None:
            teacher_for(find(flow.teacher, weights=True), task)
