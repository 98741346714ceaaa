"""8 bits where they bring something: tables always, a product only where a timing on this machine shows that it is faster.

A table (rows, width) becomes whole numbers with one scale a row: row = scale x number. A product takes onnxruntime's dynamic
way (x is rounded too, at every call), whose price thin factors seldom earn back; folds of factors stay as they are.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenfold.exporters.serving import hushed, session
from tenfold.runtime.timing import interleaved

LARGEST = 127
FASTER = 0.95
"""A product goes to 8 bits where that takes less than this share of its time."""
TOKENS = 128
FEW_ROWS = 512
"""Tables with fewer rows are not worth it."""


def quantize_(file: Path) -> tuple[str, ...]:
    """Rewrite the file; what was written in 8 bits."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    proto = onnx.load(file)
    tables = _shrink_tables(proto)
    products = _products(proto)
    faster = {shape for shape in set(products.values()) if _gains(shape, file.parent)}
    nodes = [name for name, shape in products.items() if shape in faster]
    if nodes:
        with hushed():
            quantize_dynamic(proto, file, op_types_to_quantize=["MatMul"], nodes_to_quantize=nodes, weight_type=QuantType.QInt8)
    else:
        onnx.save(proto, file)
    counts = Counter(products[name] for name in nodes)
    return (*tables, *(f"{count} products with {a} x {b}" for (a, b), count in sorted(counts.items())))


def rounded(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Whole numbers and one scale a row (rows, 1); a row of zeros stays one."""
    scale = np.abs(table).max(axis=1, keepdims=True) / LARGEST
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    return np.rint(table / scale).astype(np.int8), scale


def _shrink_tables(proto: Any) -> list[str]:
    """Gather(table, ids) -> Cast(Gather(numbers, ids)) x Gather(scales, ids)."""
    from onnx import TensorProto, helper, numpy_helper

    graph = proto.graph
    held = {i.name: i for i in graph.initializer if len(i.dims) == 2 and i.dims[0] >= FEW_ROWS}
    uses = Counter(name for node in graph.node for name in node.input)
    found, nodes = [], []
    for node in graph.node:
        table = held.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or uses[table.name] > 1 or table.data_type != TensorProto.FLOAT:
            nodes.append(node)
            continue
        numbers, scales = rounded(numpy_helper.to_array(table))
        name, ids, out = table.name, node.input[1], node.output[0]
        graph.initializer.remove(table)
        arrays = {f"{name}.int8": numbers, f"{name}.scale": scales}
        graph.initializer.extend([numpy_helper.from_array(array, key) for key, array in arrays.items()])
        nodes += [
            helper.make_node("Gather", [f"{name}.int8", ids], [f"{out}.int8"], name=f"{node.name}.int8"),
            helper.make_node("Cast", [f"{out}.int8"], [f"{out}.cast"], name=f"{node.name}.cast", to=TensorProto.FLOAT),
            helper.make_node("Gather", [f"{name}.scale", ids], [f"{out}.scale"], name=f"{node.name}.scale"),
            helper.make_node("Mul", [f"{out}.cast", f"{out}.scale"], [out], name=f"{node.name}.mul"),
        ]
        found.append(f"a table of {numbers.shape[0]} x {numbers.shape[1]}")
    del graph.node[:]
    graph.node.extend(nodes)
    return found


def _products(proto: Any) -> dict[str, tuple[int, int]]:
    """The shapes of the weights that products of x have in the file, by the product's name. Folds of factors are none."""
    held = {i.name: tuple(i.dims) for i in proto.graph.initializer if len(i.dims) == 2}
    constant = {i.name for i in proto.graph.initializer}
    found = {}
    for node in proto.graph.node:
        if all(name in constant for name in node.input):
            constant.update(node.output)
        elif node.op_type == "MatMul" and node.input[1] in held:
            found[node.name] = (held[node.input[1]][0], held[node.input[1]][1])
    return found


def _gains(shape: tuple[int, int], place: Path) -> bool:
    """Whether a product with a weight of this shape is faster in 8 bits."""
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    draw = np.random.default_rng(0)
    weight = numpy_helper.from_array(draw.standard_normal(shape, dtype=np.float32), "w")
    sides = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, None, k]) for n, k in (("x", shape[0]), ("y", shape[1]))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="m")], "g", [sides[0]], [sides[1]], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    plain, small = place / "float.onnx", place / "int8.onnx"
    try:
        onnx.save(proto, plain)
        with hushed():
            quantize_dynamic(proto, small, op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8)
        runs = {file.stem: session(file) for file in (plain, small)}
        x = {"x": draw.standard_normal((1, TOKENS, shape[0]), dtype=np.float32)}
        calls = {name: partial(run.run, None, x) for name, run in runs.items()}
        seconds = interleaved(calls, torch.device("cpu"))
    finally:
        plain.unlink(missing_ok=True)
        small.unlink(missing_ok=True)
    return seconds["int8"] < FASTER * seconds["float"]
