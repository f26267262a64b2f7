"""Campaigns: is what the products promise true in many cases, not only in those of a test?

seeds.py     the reference sits the examination with inputs of fifty seeds
faults.py    each mistake of the bank (tests/project/faults): caught, named?  faults_report.py
clusters.py  mistakes hidden in a class of two hundred: does its page group them?
chaos.py     a run is killed again and again and resumed: does it end as if nothing had happened?
fuzz/        scripts read damaged files: one line each, nothing left behind?
"""
