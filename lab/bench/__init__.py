"""Benchmarks: python -m lab.bench SUBJECT measures what the products promise, beside others.

tokenizer.py, training.py, generation.py are the subjects
measuring.py, worker.py, models.py, and what is called worker, contender or texts serve them

"""
