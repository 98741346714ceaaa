"""A recipe from its model to a small one with its report: what `tenfold run` does."""

from tenfold.workflow.recipe import Agree, Flow, Measure, dump_flow, load_flow
from tenfold.workflow.running import Ran, run_flow

__all__ = ["Agree", "Flow", "Measure", "Ran", "dump_flow", "load_flow", "run_flow"]
