"""The neighbours: batch, partial, group and gated norms, QK-norm, pruning."""
