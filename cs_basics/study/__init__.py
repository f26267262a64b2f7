"""Experiments on models, what a model costs, a microscope, and a doctor of runs.

accounting.py        parameters, operations and memory of a model, computed from its ModelConfig
ablation.py          the suites: named variants of a configuration that differ in one thing each
ablation_run.py      one run: train a variant for its budget, then measure
ablation_summary.py  all runs together: means over seeds, and which differences are noise
ablation_report.py   report.html (ablation.html), with the training losses of all runs

microscope/  what a model computes, part by part
doctor/      why a training does not work
"""
