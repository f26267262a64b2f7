"""The from-scratch rule: what a submission may not use, read from its source without running it.

    policy = check_apart(files, adapters)             # before the examination
    blocked.forbid(problem, tell, excused)      # in the sandbox, before the submission is imported
    findings = settle(policy, notes, problems)  # after it; notes: what was noted in the sandbox

The judge is the running code: a forbidden operator raises where it is called, and costs the items
that call it. The source is read for what running does not tell:

- what cannot be blocked when it runs, such as another package's tokenizer: `policy.condemned` are
  the problems whose items fail because of it;
- which problem a call is charged to: a softmax that is torch.softmax fails the problem softmax, and
  not attention, block and model too, which are built from it. `policy.excused` says which earlier
  problems have to have failed because of it;
- attempts to undo the block, and what looks like one. They are shown to an instructor under "needs
  review" and cost nothing: only a person can tell a debugging aid from a trick.

Read it in this order.

    rules.py       which names the rule applies to
    modules.py     Python files, parsed and cut into units
    source.py      all files of a submission together
    references.py  what each unit refers to, resolved
    copies.py      passages that are PyTorch's own source
    check.py       a submission's source becomes a Policy
    apart.py       the same in a process of its own
    solutions.py   where a submission solves each problem
    settle.py      compares what was called with what the source names
    library.py     checks a library that has to follow the rule everywhere
    __main__.py    python -m cs_grader.policy
"""
