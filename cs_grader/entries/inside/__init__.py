"""What runs in the sandbox of an entry, copied there beside what confines it.

launch.py   gives up rights and becomes a program of the entry
model.py    answers with the tokenizer or the model of its run
"""
