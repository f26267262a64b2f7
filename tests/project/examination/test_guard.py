"""A question that needs too much is stopped, and what stops it leaves nothing behind."""

import signal

import guard
import pytest

has_limits = pytest.mark.skipif(
    guard.data_bytes() is None or guard.has_gpu(), reason="memory is not limited here"
)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_loop_is_stopped_even_if_it_catches_everything_once():
    caught = []

    def stubborn():
        while True:
            try:
                while True:
                    pass
            except BaseException as error:
                caught.append(error)
                if len(caught) > 1:
                    raise

    with pytest.raises(guard.OutOfTimeError), guard.limited_time(0.2):
        stubborn()
    assert len(caught) == 2
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def double():
    endless = [0]
    while len(endless) < 2**28:
        endless.extend(endless)


def allocate():
    import torch

    torch.empty(2**30)


@has_limits
@pytest.mark.parametrize("ask_for_too_much", [double, allocate])
def test_a_list_that_doubles_and_a_tensor_that_is_too_large_are_out_of_memory(
    monkeypatch, ask_for_too_much
):
    import resource

    monkeypatch.setattr(guard, "MOST_GIB", 0.25)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises((MemoryError, RuntimeError)) as caught, guard.limited_memory():
        ask_for_too_much()
    assert guard.is_out_of_memory(caught.value)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
