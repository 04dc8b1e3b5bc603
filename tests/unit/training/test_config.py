"""Settings are checked; learning rates change from update to update."""

import math

import numpy as np
import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.training.config import TrainerConfig


def test_schedules():
    constant = TrainerConfig(learning_rate=0.5, schedule="constant", max_epochs=1)
    assert constant.rate_at(0, 99, 100) == 0.5
    config = TrainerConfig(learning_rate=0.5, max_epochs=1)
    cosine = [config.rate_at(0, update, 100) for update in range(101)]
    assert cosine[0] == 0.5
    assert cosine[50] == pytest.approx(0.25)
    assert cosine[100] == pytest.approx(0.0)
    assert sorted(cosine, reverse=True) == cosine


def test_a_schedule_counts_through_all_epochs():
    config = TrainerConfig(learning_rate=0.5, max_epochs=4)
    assert config.rate_at(0, 0, 25) == 0.5
    assert config.rate_at(2, 0, 25) == pytest.approx(0.25)
    one_epoch = TrainerConfig(learning_rate=0.5, max_epochs=1)
    assert config.rate_at(3, 24, 25) == one_epoch.rate_at(0, 99, 100)


def test_numbers_of_numpy_become_plain_ones():
    config = TrainerConfig(max_epochs=np.int64(1), learning_rate=np.float32(0.01), seed=np.int8(3))
    assert type(config.seed) is int
    assert type(config.learning_rate) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number"),
        ({"learning_rate": "fast"}, "learning_rate must be a finite number above 0, got 'fast'"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"max_epochs": True}, "max_epochs must be a whole number"),
        ({"optimizer": "rmsprop"}, "optimizer must be one of 'adam', 'sgd'"),
        ({"seed": -1}, "seed must be between 0"),
    ],
)
def test_wrong_settings_are_refused(change, message):
    with pytest.raises(InvalidArgument, match=message):
        TrainerConfig(**change)
