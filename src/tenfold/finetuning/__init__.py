"""Learning a task from its labels: teachers, baselines, and what distillation is compared with."""
