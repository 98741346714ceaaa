"""Experiments: whole tables of teachers, students and baselines by one command, each cell a model folder."""
