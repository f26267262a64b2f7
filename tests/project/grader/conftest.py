"""A submission in the sandbox that does on demand what none should."""

import shutil

import pytest
from hostile import TIERS, staged

from cs_grader.outside import sandbox, tiers
from cs_grader.outside.connection import Connection
from cs_grader.outside.copying import own_names


@pytest.fixture(scope="module", params=TIERS)
def connection(request, tmp_path_factory):
    tier = request.param
    reason = tiers.why_not(tier)
    if reason:
        pytest.skip(f"{tier}: {reason}")
    stage = staged(tmp_path_factory.mktemp("stage"))
    limits = sandbox.Limits(memory_bytes=2**30, idle_s=2)
    more = {"own_names": own_names(stage.submission)}
    made = Connection(tier, stage, limits, more, budget_s=600)
    yield made
    printed = made.close()
    assert "printed at import" in printed
    assert len(printed) < 300_000
    shutil.rmtree(stage.root)
