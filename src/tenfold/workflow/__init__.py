"""A recipe from its model to a small one with its report: what `tenfold run` does."""

from tenfold.workflow.recipe import Agree, Flow, Measure, dump_flow, load_flow

__all__ = ["Agree", "Flow", "Measure", "dump_flow", "load_flow"]
