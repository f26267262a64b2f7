"""The dtype of the matrix products is the faster one, and an emulated one is found out quickly."""

import pytest
import torch

from cs_basics.run import hardware

CPU = torch.device("cpu")


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

    def rate(dtype, device, size=1024):
        assert device == CPU
        measured.add(size)
        return gains[size] if dtype == torch.bfloat16 else 1.0

    monkeypatch.setattr(hardware, "matmul_rate", rate)
    assert hardware.resolve_dtype("auto", CPU) == chosen
    assert measured == sizes
