"""The from-scratch rule, as the grader reads it in a source and keeps it while code runs.

result.py   what is found
policy/     what a source may not use: python -m cs_grader.policy cs_basics, or make rules
inside/     makes the forbidden operators raise
"""
