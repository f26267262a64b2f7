"""Campaigns: is what the products promise true in many cases, not only in those of a test?

faults.py    each mistake of the bank (tests/project/bank): caught, named?
chaos.py     a run is killed again and again and resumed: does it end as if nothing had happened?
ready_made.py  is an answer of the examination to be had from PyTorch where no block stops it?
mutants.py   places of the product are broken at random: do the tests notice?
"""
