"""A microscope for norms: what happens to the residual stream inside a model.

    reading.py   statistics of what every norm reads, and of attention scores
    history.py   readings of a run, kept in its folder
    plot.py      readings of several steps as one picture

The script: scripts/microscope.py.
"""
