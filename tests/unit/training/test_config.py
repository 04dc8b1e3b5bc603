"""Learning rates and decays from update to update."""

import pytest

from supdocnade.training import TrainerConfig
from supdocnade.training.config import Schedule, scheduled_rate


def test_schedules():
    assert scheduled_rate("constant", 0.5, 99, 100) == 0.5
    cosine = [scheduled_rate("cosine", 0.5, update, 100) for update in range(101)]
    assert cosine[0] == 0.5
    assert cosine[50] == pytest.approx(0.25)
    assert cosine[100] == pytest.approx(0.0)
    assert sorted(cosine, reverse=True) == cosine


def test_a_schedule_counts_through_all_epochs():
    schedule = Schedule(TrainerConfig(learning_rate=0.5, max_epochs=4, averaging=0.5), n_updates=25)
    assert schedule.rate(0, 0) == 0.5
    assert schedule.rate(2, 0) == pytest.approx(0.25)
    assert schedule.rate(3, 24) == scheduled_rate("cosine", 0.5, 99, 100)
    assert schedule.decay(0, 0) == pytest.approx(0.1)
    assert schedule.decay(0, 2) == pytest.approx(0.25)
    assert schedule.decay(1, 0) == 0.5
