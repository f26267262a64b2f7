"""Rounding: the order of cast and gain, eps, float32 inside, rsqrt."""
