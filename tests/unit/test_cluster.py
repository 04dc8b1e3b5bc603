import os
import socket
import sys

import pytest

from supdocnade.cluster import map_shards, shard_options
from supdocnade.errors import ClusterError
from supdocnade.runs import RunOptions, no_progress


def test_without_a_cluster_shards_are_done_one_after_the_other_when_requested():
    done = []
    results = map_shards(lambda shard: done.append(shard) or 10 * shard, [1, 2, 3], RunOptions())
    assert next(results) == 10
    assert done == [1]
    assert list(results) == [20, 30]


def test_a_missing_ray_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"pip install '.*\[ray\]'"):
        next(map_shards(str, [1], RunOptions(cluster="local")))


def test_an_address_without_a_cluster_is_refused_at_once():
    pytest.importorskip("ray")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"no Ray cluster at '{address}'.*refused"):
            next(map_shards(str, [1], RunOptions(cluster=address)))


def test_usage_is_not_reported_unless_the_user_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for before, after in ((None, "0"), ("1", "1")):
        monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
        if before is not None:
            monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", before)
        with pytest.raises(ClusterError):
            next(map_shards(str, [1], RunOptions(cluster="local")))
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == after


def test_a_task_has_one_core_and_a_shard_in_this_process_all_of_them():
    def report(*_):
        pass

    here = shard_options(RunOptions(n_jobs=3), report)
    assert (here.n_jobs, here.progress) == (3, report)
    there = shard_options(RunOptions(n_jobs=3, cluster="auto"), report)
    assert (there.n_jobs, there.progress, there.cluster) == (1, no_progress, None)
