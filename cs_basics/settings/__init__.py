"""The settings of a run; nothing else of this project is imported here.

model.py      what a model computes
run.py        all settings, by subject, with their rules; to JSON and back
presets.py    complete settings, by name
"""
