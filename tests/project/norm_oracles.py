"""The norms in float64 NumPy, vector by vector, written independently of cs_basics.norms."""

import math

import numpy as np


def vector_by_vector(norm):
    """Turn a norm of one vector into one of arrays (..., d); other arrays go in step with x."""

    def of_arrays(x, *others, **options):
        x = np.asarray(x, np.float64)
        rows = [np.asarray(a, np.float64).reshape(-1, x.shape[-1]) for a in (x, *others)]
        results = [norm(*row, **options) for row in zip(*rows, strict=True)]
        return np.array(results).reshape(x.shape)

    return of_arrays


def root_mean_square(row, eps):
    return math.sqrt(math.fsum(value * value for value in row) / len(row) + eps)


@vector_by_vector
def rms_norm(x, *, weight, eps=1e-5):
    return x / root_mean_square(x, eps) * weight


@vector_by_vector
def gemma_rms_norm(x, *, weight, eps=1e-5):
    return x / root_mean_square(x, eps) * (1 + weight)


@vector_by_vector
def layer_norm(x, *, weight, bias, eps=1e-5):
    deviation = x - math.fsum(x) / len(x)
    return deviation / math.sqrt(math.fsum(deviation**2) / len(x) + eps) * weight + bias


@vector_by_vector
def partial_rms_norm(x, *, weight, num_measured, eps=1e-5):
    return x / root_mean_square(x[:num_measured], eps) * weight


@vector_by_vector
def group_rms_norm(x, *, weight, num_groups, eps=1e-5):
    groups = [group / root_mean_square(group, eps) for group in np.split(x, num_groups)]
    return np.concatenate(groups) * weight


@vector_by_vector
def gated_rms_norm(x, gate, *, weight, gate_first, eps=1e-5):
    opening = gate / (1 + np.exp(-gate))
    if gate_first:
        return rms_norm(x * opening, weight=weight, eps=eps)
    return rms_norm(x, weight=weight, eps=eps) * opening


def slope(function, array, cotangent, step=1e-5):
    """Differentiate sum(function(array) * cotangent) by central differences, entry by entry."""
    array = np.asarray(array, np.float64)
    result = np.empty_like(array)
    for index in np.ndindex(array.shape):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[index] += sign * step
            ends.append(np.sum(function(moved) * cotangent))
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result
