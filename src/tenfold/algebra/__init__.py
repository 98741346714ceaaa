"""Decompositions of matrices and stacks of matrices. torch only; nothing here knows what a model is."""
