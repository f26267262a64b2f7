"""Damaged files for every script: `python -m lab.campaigns.fuzz`.

A case is a healthy file, damaged in one of many ways (damage.py), and a script that reads it
(commands.py), run in a forked process with little memory and time (trial.py). Whatever the file,
the script ends with 0, or with 2 and one line: soon, without much memory, and without leaving
half-made output.
"""
