"""Teaching a small model to compute what a large one does: any student, any teacher.

    pairs = layer_map(depth, teacher_depth, "uniform")                     # {student layer: teacher layer}
    seen = Tracer(student, Wanted.of({"hidden": pairs}))
    taught = Tracer(teacher, Wanted.of({"hidden": pairs.values()}))
    with torch.no_grad():
        target = taught(batch)
    part = compare("hidden", seen(batch), target, layers=(1, pairs[1]))    # part.total, part.count, part.mean

Layers are counted from 1; layer 0 is the embedding output. Any of `LOSSES` takes the place of "hidden".
"""

from tenfold.distillation.blocks import head_count
from tenfold.distillation.local import BlockLocal, block_local
from tenfold.distillation.losses import LOSSES, Loss, loss_named
from tenfold.distillation.matching import Projections, compare, layer_map, measure_scales, projections, same_vocabulary
from tenfold.distillation.parts import Part, Spread, pair_mask, pool
from tenfold.distillation.trace import Trace, Tracer, Wanted, trace

__all__ = [
    "LOSSES",
    "BlockLocal",
    "Loss",
    "Part",
    "Projections",
    "Spread",
    "Trace",
    "Tracer",
    "Wanted",
    "block_local",
    "compare",
    "head_count",
    "layer_map",
    "loss_named",
    "measure_scales",
    "pair_mask",
    "pool",
    "projections",
    "same_vocabulary",
    "trace",
]
