"""Compute quantiles of the Beta distribution and of Student's t, without SciPy."""

import math
from functools import lru_cache

TINY = 1e-300  # replaces 0 in a denominator
STEPS = 100  # most steps of Newton's method
TERMS = 10_000  # most terms of the continued fraction


@lru_cache(maxsize=4096)
def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the quantile of the distribution Beta(a, b) at `share`, by Newton's method with
    bisection."""
    low = 0.0
    high = 1.0
    x = a / (a + b)
    # the density is front / (x * (1 - x)), and scale is the logarithm of 1 / B(a, b)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    switch = (a + 1) / (a + b + 2)  # above it, the fraction of 1 - x converges faster
    for _ in range(STEPS):
        if not 0 < x < 1:
            break
        log_front = scale + a * math.log(x) + b * math.log1p(-x)
        front = math.exp(log_front)
        if x < switch:
            below = front * _beta_fraction(x, a, b) / a
        else:
            above = front * _beta_fraction(1 - x, b, a) / b
            below = 1 - above
        excess = below - share
        if excess < 0:
            low = x
        else:
            high = x
        density = front / x / (1 - x)
        step = excess / density if density else math.inf
        following = x - step
        if not low < following < high:
            following = (low + high) / 2
        change = following - x
        if abs(change) <= 1e-12:
            break
        x = following
    return x


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Evaluate the incomplete beta function's continued fraction by Lentz's method (Abramowitz and
    Stegun 26.5.8)."""
    first = 1 - (a + b) * x / (a + 1)
    top = 1.0
    bottom = 1 / (first or TINY)
    value = bottom
    for m in range(1, TERMS):
        middle = a + 2 * m
        even = m * (b - m) * x
        even /= (middle - 1) * middle
        odd = -(a + m) * (a + b + m) * x
        odd /= middle * (middle + 1)
        for term in (even, odd):
            denominator = 1 + term * bottom
            bottom = 1 / (denominator or TINY)
            top = (1 + term / top) or TINY
            factor = top * bottom
            value *= factor
        if abs(factor - 1) < 1e-14:
            break
    return value


def t_quantile(level: float, df: float) -> float:
    """Return the 1 - level / 2 quantile of Student's t, whose square over (square + df) is
    Beta(1/2, df/2)."""
    share = beta_quantile(1 - level, 0.5, df / 2)
    return math.sqrt(df * share / (1 - share))
