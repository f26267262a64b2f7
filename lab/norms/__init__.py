"""Norms that no product uses: a derived backward, addition and norm in one, Triton kernels.

rms_norm.py      RMSNorm with a backward derived by hand; triton_norms.py: the same on GPUs
shapes.py        the shapes of both
add_rms_norm.py  residual addition and norm in one: of the rounded or unrounded sum, or in place
gated.py         RMSNorm with a gate, as in Mamba-2

How fast they are: python -m lab.claims --quiet.
"""
