"""The embedded corpus: a grammar that writes simple children's stories, any amount, from a seed.

It lets anyone train and test a small language model without a download. The stories are in the
manner of TinyStories (Eldan and Li 2023, https://arxiv.org/abs/2305.07759): few words, one problem,
one resolution. The package imports nothing else of cs_basics. In reading order:

    plots.txt     what happens, and the ways to say it; explains how to add a plot
    words.txt     the words that fill the slots of the plots
    sections.py   reads the format that both files share
    words.py      reads words.txt
    plots.py      reads plots.txt
    grammar.py    tells stories and writes them to a file: write_stories
"""
