"""Pico models are so small that a second thread costs more than it brings (170 ms a forward instead of 0.8)."""

import torch

torch.set_num_threads(1)
