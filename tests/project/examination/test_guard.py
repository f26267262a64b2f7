"""A question that needs too much is stopped, and what stops it leaves nothing behind."""

import builtins
import importlib.util
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


@has_limits
def test_a_list_that_doubles_is_stopped(monkeypatch):
    import resource

    monkeypatch.setattr(guard, "MOST_GIB", 0.25)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    endless = [0]

    def double():
        while True:
            endless.extend(endless)

    with pytest.raises(MemoryError) as caught, guard.limited_memory():
        double()
    assert len(endless) < 2**28
    assert guard.is_out_of_memory(caught.value)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@has_limits
def test_a_tensor_that_is_too_large_is_out_of_memory_too(monkeypatch):
    import torch

    monkeypatch.setattr(guard, "MOST_GIB", 0.25)
    with pytest.raises(RuntimeError) as caught, guard.limited_memory():
        torch.empty(2**30)
    assert guard.is_out_of_memory(caught.value)


def test_where_there_are_no_limits_nothing_happens(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "resource" else find_spec(name)
    )
    monkeypatch.delattr(signal, "setitimer", raising=False)
    real = builtins.__import__

    def without_resource(name, *rest, **options):
        assert name != "resource"
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without_resource)
    with guard.guarded(0.01):
        assert sum(range(10**6))
