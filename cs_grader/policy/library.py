"""Checks a library that has to follow the from-scratch rule everywhere."""

from collections.abc import Mapping

from cs_grader.policy.check import for_review, forbidden_finding, suspicions, unlisted
from cs_grader.policy.references import read_source
from cs_grader.policy.rules import group_of, is_within
from cs_grader.result import Finding


def check_library(files: Mapping[str, str]) -> list[Finding]:
    """Find everything in a library that the rule forbids or doubts, whether or not it is used."""
    findings: list[Finding] = []
    for unit in read_source(files).units():
        findings += [
            forbidden_finding("", mention)
            for mention in unit.mentions
            # `x.softmax` is no certain mention, but hardly of anything but a tensor.
            if group_of(mention.name)
        ]
        findings += [
            for_review("", name, unit, line, words)
            for name, line, words in [*suspicions(unit), *unlisted(unit)]
            # A library may run git; a submission's solution has no reason to run anything.
            if not is_within(name, ("subprocess",))
        ]
    return findings
