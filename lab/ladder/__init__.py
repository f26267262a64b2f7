"""The ladder to the lowest loss in a few minutes: which ideas help, alone and on top of others.

rungs.py      the ideas: settings of a training run, and who proposed them
texts.py      the held-out tenth of the training text, which chooses the rungs
scores.py     record.jsonl: what all runs have in common, and the score of each
statistics.py whether one set of scores is lower than another
climb.py      which recipes have to be trained, and which rungs are accepted
page.py       lab/ladder/record.md: its tables and its picture
notes.py      what stands below them: how far they go, how to go on, the rules

lab.ladder trains what `climb` asks for, one run after the other.
"""
