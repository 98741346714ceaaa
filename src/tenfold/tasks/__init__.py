"""Labelled tasks: GLUE and the user's own."""
