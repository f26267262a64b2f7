"""The attack on hidden inputs: a submission reads and tells what it can, and learns nothing."""

import base64
import itertools
import random
import re
import zlib

import pytest
from files import write_files
from grade_folders import grade

from cs_grader.trusted import hidden

SECRET = "a secret of more than 128 bits"
KEY = hidden.key_for(SECRET, "ann", "0" * 64)

# Answers rightly on public inputs, which it knows by heart, and tells all it sees of the others:
# in messages, in the name of an exception, in the ledger of forbidden calls, in print, in time.
ATTACK = """
import os, random, sys, time, zlib
import numpy as np
import torch

def ledger():
    frame = sys._getframe()
    while "shared" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["shared"].ledger

def softmax(x, dim):
    exponentials = torch.exp(x - x.amax(dim, keepdim=True))
    return exponentials / exponentials.sum(dim, keepdim=True)

def run_softmax(in_features, dim):
    values = in_features.detach().double().contiguous().numpy().tobytes()
    seen = [torch.initial_seed(), int(np.random.get_state()[1][0]), random.getrandbits(32)]
    words = "SEEN " + " ".join(map(str, [zlib.crc32(values), *seen])) + " ."
    print(words)
    for kind in ("forbidden", "code"):
        ledger().write(kind, "SEEN " + words.replace(" ", "_"), words, 7)
    if seen[0] % 2:
        time.sleep(0.02)
        raise type(f"X{zlib.crc32(values)}", (Exception,), {})(words)
    return softmax(in_features, dim) * 3
"""


@pytest.fixture(scope="module")
def attempts(tmp_path_factory):
    """The attack, the same once more as another attempt, and handed in by another student."""
    graded = []
    for more, names in (("", ("ann", "bob")), ("# another attempt\n", ("ann",))):
        folder = tmp_path_factory.mktemp("attempts")
        files = {"tests/adapters.py": ATTACK + more}
        given = {name: write_files(folder / name, files) for name in names}
        found = grade(given, folder / "out", ("softmax",), SECRET)
        graded += [(one.result, folder / "out" / one.submission.name) for one in found]
    return graded


def told_by(result, is_hidden=True):
    """What the attack says it has seen: of each item that told, all numbers."""
    found = {}
    for item in result.items:
        told = re.search(r"SEEN ([\d ]+) \.", item.message)
        if told and item.is_hidden == is_hidden:
            found[item.item] = [int(number) for number in told[1].split()]
    return found


def test_what_the_attack_tells_of_hidden_items_reaches_the_instructor_only(attempts):
    for result, out in attempts:
        public = {number for seen in told_by(result, False).values() for number in seen}
        secret = {number for seen in told_by(result).values() for number in seen} - public
        assert len(secret) >= 6
        assert "SEEN" in (out / "instructor.html").read_text(encoding="utf-8")
        for path in out.iterdir():
            if path.name in ("instructor.html", "result.json"):
                continue
            text = path.read_text(encoding="utf-8")
            if path.name == "github-classroom.txt":
                text = base64.b64decode(text).decode()
            assert not {str(number) for number in secret} & set(re.findall(r"\d+", text)), path
            assert "(hidden inputs)" not in text
        calls = [finding.operator for finding in result.policy]
        assert not [words for words in calls if "SEEN" in words]


def test_another_attempt_and_another_student_get_other_inputs(attempts):
    # An input without numbers is the same for all.
    inputs = [
        {seen[0] for seen in told_by(result).values()} - {zlib.crc32(b"")} for result, _ in attempts
    ]
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(inputs, 2))
    public = [told_by(result, False) for result, _ in attempts]
    for item in set.intersection(*map(set, public)):
        assert len({seen[item][0] for seen in public}) == 1


def test_seeds_in_the_sandbox_are_unrelated_to_the_inputs(attempts):
    """What a submission could try: all seeds that it sees, as seeds of the generator outside."""
    for result, _ in attempts:
        key = hidden.key_for(SECRET, result.submission, result.key)
        for item, seen in told_by(result).items():
            drawn = f"{item} once more"  # As for all of a problem of which something is wrong.
            seed = [hidden.seed_of_inputs(key, drawn), zlib.crc32(item.partition("::")[2].encode())]
            # The formula of the examination at home, whose seeds are public.
            assert zlib.crc32(repr(seed).encode()) not in seen
            assert hidden.seed_in_sandbox(key, drawn) == seen[1]
            # What is refused for its type is asked for once more, in float32.
            draw = random.Random(seen[1]).getrandbits
            assert {draw(32), draw(32)} & set(seen)
    first, *others = ({seen[1] for seen in told_by(result).values()} for result, _ in attempts)
    assert all(first.isdisjoint(other) for other in others)


def test_public_items_run_before_anything_hidden_is_in_the_sandbox(attempts):
    for result, _ in attempts:
        flags = [item.is_hidden for item in result.items]
        assert flags == sorted(flags)


# --- the keys ---


def test_every_part_changes_the_key():
    keys = {
        hidden.key_for(secret, submission, content)
        for secret in (SECRET, SECRET + "!")
        for submission in ("ann", "bob", "")
        for content in ("ann", "0" * 64)
    }
    assert len(keys) == 12
    assert hidden.key_for("", "ann", "0") == ""


def test_seeds_differ_by_item_and_purpose():
    items = [f"tests/test_x.py::test[{number}]" for number in range(200)]
    inputs = {hidden.seed_of_inputs(KEY, item) for item in items}
    inside = {hidden.seed_in_sandbox(KEY, item) for item in items}
    assert len(inputs) == len(inside) == 200
    assert max(inputs) > 2**250
    assert all(0 <= seed < 2**31 for seed in inside)
    assert not {seed % 2**31 for seed in inputs} & inside
    assert not {seed >> 225 for seed in inputs} & inside


def test_drawn_secrets_are_long_and_chosen_ones_must_be():
    assert len({hidden.check_secret(None) for _ in range(100)}) == 100
    assert len(bytes.fromhex(hidden.check_secret(None))) >= 16
    assert hidden.check_secret("0") == ""
    assert hidden.check_secret("x" * 22) == "x" * 22
    with pytest.raises(ValueError, match="can be guessed"):
        hidden.check_secret("x" * 21)


def test_the_name_of_a_secret_gives_none_of_it_away():
    assert hidden.name_of_secret("") == ""
    assert hidden.name_of_secret(SECRET) not in (SECRET, KEY)
    assert hidden.name_of_secret(SECRET) != hidden.name_of_secret(SECRET + "!")
