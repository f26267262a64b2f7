"""A hold on the updates of a run."""

import pytest

from cs_basics.run.trainer import Trainer


@pytest.fixture
def before_update(monkeypatch):
    """Have something happen once, when the update of a step is due."""

    def arrange(at_step, happen):
        next_batch = Trainer.next_batch
        is_due = True

        def changed(self):
            nonlocal is_due
            if is_due and self.step + 1 == at_step:
                is_due = False
                happen()
            return next_batch(self)

        monkeypatch.setattr(Trainer, "next_batch", changed)

    return arrange
