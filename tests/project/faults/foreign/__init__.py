"""Faults planted as small edits in whole implementations of three styles.

    compact.py   one file of plain functions
    planting.py  applies an edit to a copy of an implementation, and imports that
    known.py     mistakes that the rest of the bank has, too, each written in another style
    unknown.py   mistakes that the examination has no name for, or that its authors did not foresee

The other two styles are the book itself and tests/project/bank/independent.
"""
