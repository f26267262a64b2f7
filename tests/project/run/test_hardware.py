"""The best device that is there, the faster dtype, and an emulated one found out quickly."""

import pytest
import torch

from cs_basics.run import hardware

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _forget_measurements():
    hardware.bfloat16_gain.cache_clear()
    yield
    hardware.bfloat16_gain.cache_clear()


@pytest.mark.parametrize(
    ("has_cuda", "has_mps", "chosen"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_the_device_is_cuda_or_else_mps_or_else_the_cpu(monkeypatch, has_cuda, has_mps, chosen):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: has_mps)
    assert hardware.resolve_device("auto").type == chosen
    assert hardware.resolve_device("cpu").type == "cpu"


@pytest.mark.parametrize(
    ("gains", "chosen", "sizes"),
    [
        ({256: 0.01, 1024: 0.01}, torch.float32, {256}),
        ({256: 0.8, 1024: 3.0}, torch.bfloat16, {256, 1024}),
        ({256: 0.8, 1024: 1.1}, torch.float32, {256, 1024}),
    ],
    ids=["emulated", "a unit for it", "hardly faster"],
)
def test_the_faster_dtype_is_chosen_and_an_emulated_one_is_not_asked_for_much(
    monkeypatch, gains, chosen, sizes
):
    measured = set()

    def product_s(a):
        assert a.device == CPU
        measured.add(len(a))
        return 1.0 if a.dtype == torch.float32 else 1.0 / gains[len(a)]

    monkeypatch.setattr(hardware, "_product_s", product_s)
    assert hardware.resolve_dtype("auto", CPU) == chosen
    assert measured == sizes


def test_a_peak_that_the_kernel_does_not_tell_is_unknown(monkeypatch):
    monkeypatch.setattr(hardware.Path, "exists", lambda _: True)
    monkeypatch.setattr(hardware.Path, "read_text", lambda _: "Name:\tpython\nVmHWM:\t  2000 kB\n")
    assert hardware.peak_memory_mb(CPU) == 2.048
    monkeypatch.setattr(hardware.Path, "read_text", lambda _: "Name:\tpython\n")
    assert hardware.peak_memory_mb(CPU) is None
