"""Benchmarks: python -m lab.bench SUBJECT measures what the products promise, beside others.

norms.py, tokenizer.py, training.py, generation.py, loss.py are the subjects
measuring.py, worker.py, models.py, and what is called worker, contender or texts serve them

batch.py          makes a class of any size and measures how it is graded
measure_page.py   the page of a run in headless Chromium
check_stories.py  do stories keep their hero?
"""
