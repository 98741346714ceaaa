"""GELU in seven operations and one power of two: gelu(x) = max(x, 0) - |x| tail(|x|), with tail(a) = 2^P(a).

The tail of the normal distribution, (1 - erf(a / sqrt 2)) / 2, falls like a power of a power, so that its logarithm is nearly a
parabola, and a short polynomial P is close to it. P is the minimax fit of max(a, 1/2) |2^P - tail| on 0 .. 4.5; its last
coefficient is negative, so that the tail goes to 0 beyond. GELU_TANH: the same of the tail that the tanh form stands for it.
"""

GELU = (
    -1.00000328615502,
    -1.1510180547560727,
    -0.4595263912567766,
    -0.05222080347543994,
    0.0072296063427685,
    -0.000492505090463418,
)
GELU_BOUND, GELU_TAIL_BOUND = 6e-7, 1.2e-6
"""Absolute error for every x, of gelu(x) and of the tail (half of erf's)."""

GELU_TANH = (
    -1.0000313338953717,
    -1.1503951692192336,
    -0.461273042776687,
    -0.05075433532476,
    0.00994339209312018,
    -0.002137641243665,
)
GELU_TANH_BOUND, GELU_TANH_TAIL_BOUND = 6e-6, 1.2e-5
