"""A microscope for norms: what happens to the residual stream inside a model.

    reading.py   statistics of what every norm reads, and of attention scores
    of_run.py    readings of a run: of its checkpoints
    plot.py      readings of several steps as one picture

The script: scripts/microscope.py.
"""
