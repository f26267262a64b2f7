"""What a run has left, found by its configuration."""

from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics


def folder_of(config):
    return RunFolder(config.run.run_dir)


def rows_of(config):
    return read_metrics(folder_of(config).metrics)


def values_of(config, name):
    """Return what the rows that have this name say, in order."""
    return [row[name] for row in rows_of(config) if name in row]
