"""Work that cannot say how far it is says that it goes on."""

import time

from processes import until

from cs_basics.run import progress
from cs_basics.run.progress import signs_of_life


def test_a_sign_comes_now_and_then_until_the_work_ends(monkeypatch, caplog):
    monkeypatch.setattr(progress, "SIGN_EVERY_S", 0.02)
    caplog.set_level("INFO")
    with signs_of_life("compiling"):
        until(lambda: len(caplog.messages) >= 2)
    told = len(caplog.messages)
    assert caplog.messages[0] == "compiling: 0 s so far"
    time.sleep(0.06)
    assert len(caplog.messages) == told
