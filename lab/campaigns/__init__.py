"""Campaigns: is what the products promise true in many cases, not only in those of a test?

faults.py    each mistake of the bank (tests/project/bank): caught, named?
clusters.py  mistakes hidden in a class of two hundred: does its page group them?
chaos.py     a run is killed again and again and resumed: does it end as if nothing had happened?
fuzz.py      scripts read damaged files: one line each, nothing left behind?
mutants.py   places of the product are broken at random: do the tests notice?
"""
