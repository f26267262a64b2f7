"""The from-scratch rule, as the grader reads it in a source and keeps it while code runs.

result.py   what is found
rules/      what a source may not use: python -m cs_grader.rules cs_basics, or make rules
sandbox/    makes the forbidden operators raise
"""
