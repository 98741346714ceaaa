"""The Triton programs without a GPU, in a process of its own: whether they are interpreted is settled at their import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = Path(__file__).with_name("interpreted_kernels.py")


def test_the_programs_compute_what_the_blocks_are() -> None:
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", str(CHECKS), "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=CHECKS.parents[2], timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
