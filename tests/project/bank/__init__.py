"""The bank: changes of whole implementations, and what the products must make of each.

    faults/          mistakes that the examination must catch, and name rightly or not at all
    honest/          right work in other people's styles, which it must accept
    limits/          right implementations that stop at one difficulty, and what each may cost
    returned.txt     what is right in another form, and goes all the way (edition/test_bank.py)
    programs.txt     whole programs in other people's styles (edition/test_programs.py, too)
    downstream.txt   what breaks what comes later, each named by the rehearsal
    contract.txt     the reference by each convention that a class may choose (docs/teach.md)

    independent/     an implementation written without sight of the book; changes are of either

    patches.py       reads the changes and makes them
    cases.py         faults, honest variants, limits; `python -m lab.campaigns.faults` runs them
    run.py           writes each case as a repository and runs the items of its problems
    verdict.py       says whether the examination made of a case what it should

To add a fault, say what is wrong, and after the file words that only the right explanation has:

    == rmsnorm | eps is added outside the root | norms.py | eps is added outside
    -        normalised = x32 * torch.rsqrt(mean_square + self.eps)
    +        normalised = x32 / (torch.sqrt(mean_square) + self.eps)

Each bar adds other words that will do; without any, no name is known and none may be given. Where
several mistakes meet, " & " stands between the words of each.

After a limit's file come the claim whose items it may fail, the most that it may cost, and words
that the message must have:

    == linear | one vector has no leading axis | layers.py | axes | 1/5 | with a leading axis

The most is 1/5 of a problem's points where the limit is one in practice, too, 1/20 where it is the
contract alone that asks for more, and 0 where nothing may fail. A problem that is built from this
one has claims of the same names, so that a limit may show there as well.
"""
