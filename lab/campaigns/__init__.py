"""Campaigns: is what the products promise true in many cases, not only in those of a test?

faults.py    each mistake of the bank (tests/project/bank): caught, named?
chaos.py     a run is killed again and again and resumed: does it end as if nothing had happened?
mutants.py   places of the product are broken at random: do the tests notice?
"""
