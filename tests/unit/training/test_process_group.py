"""Messages and sums of a process group; `test_processes.py` has groups of several processes."""

import pytest
import torch
import torch.distributed as dist
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.errors import InvalidArgument, ProcessLost
from supdocnade.training.groups import GradientLayout, GroupSum, TableRows, sum_groups
from supdocnade.training.process_group import (
    ProcessGroup,
    activate,
    active_group,
    check_groups,
    detect_loss,
)

NETWORK = network_for(scene_corpus(5, mean_length=5)[1])


@pytest.fixture
def group():
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield ProcessGroup(dist.group.WORLD, store, local=True)
    dist.destroy_process_group()


def compute(number: int) -> GroupSum:
    generator = torch.Generator().manual_seed(number)
    rows = torch.arange(number + 1)
    values = torch.randn(number + 1, NETWORK.config.n_topics, generator=generator)
    vector = torch.randn(GradientLayout(NETWORK).length, generator=generator)
    return GroupSum(vector, (TableRows(rows, values),))


def test_a_group_sums_in_the_order_of_the_tree(group):
    layout = GradientLayout(NETWORK)
    layout.tables = [NETWORK.word_embedding]
    found, expected = group.sum_groups(5, layout, compute), sum_groups((0, 5), compute)
    assert torch.equal(found.vector_P, expected.vector_P)
    assert torch.equal(found.tables[0].rows_R, expected.tables[0].rows_R)
    assert torch.equal(found.tables[0].values_RH, expected.tables[0].values_RH)


def test_messages_are_read_in_their_order(group):
    reader = ProcessGroup(dist.group.WORLD, group._store, local=True)
    for message in ("train 3", "epoch", "stop"):
        group.post(message)
    assert [reader.receive() for _ in range(3)] == ["train 3", "epoch", "stop"]


def test_an_epoch_that_is_left_loses_the_others(group):
    def leave():
        with group.epoch():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert group.lost
    with pytest.raises(ProcessLost, match="lost in an earlier training"), group.training("task"):
        pass


def test_groups_are_checked_only_while_processes_share_the_training(group):
    check_groups(1)
    group.size = 2
    with activate(group):
        assert active_group() is group
        check_groups(2)
        with pytest.raises(InvalidArgument, match="training processes, 2, got 1"):
            check_groups(1)
    assert active_group() is None


def test_failed_exchanges_are_one_sentence():
    sentence = r"^another process .* did not answer in time\.$"
    with pytest.raises(ProcessLost, match=sentence), detect_loss():
        raise RuntimeError("Connection closed by peer")
