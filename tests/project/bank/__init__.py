"""The bank of limits: right implementations, each of which stops at one difficulty.

    limits.txt       limits of layers, functions and models
    limits_text.txt  limits of the tokenizer and of what trains a model
    limits.py        reads them, and runs the items of each
    __main__.py      runs some or all of them, and prints what each costs

What a program does after the examination, as patches of edition/patches.py:

    returned.txt     what is right in another form, and goes all the way (edition/test_bank.py)
    programs.txt     whole programs in other people's styles (edition/test_programs.py, too)
    downstream.txt   what breaks what comes later, each named by the rehearsal

To add a limit, write it as a patch (tests/project/planted/plantings.py). After the file come the
claim whose items it may fail, the most that it may cost, and words that the message must have:

    == linear | one vector has no leading axis | layers.py | axes | 1/5 | with a leading axis
    -        return x @ self.weight.T
    +        return torch.einsum("bi,oi->bo", x, self.weight)

The most is 1/5 of a problem's points where the limit is one in practice, too, 1/20 where it is the
contract alone that asks for more, and 0 where nothing may fail. A problem that is built from this
one has claims of the same names, so that a limit may show there as well.
"""
