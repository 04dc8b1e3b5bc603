from pathlib import Path

import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.runs import RunOptions, no_progress


def test_folders_become_paths():
    options = RunOptions(cache="words", checkpoint=Path("runs"))
    assert (options.cache, options.checkpoint) == (Path("words"), Path("runs"))
    assert RunOptions().cache is None


def test_error_handling_is_checked():
    with pytest.raises(InvalidArgument, match=r"on_error must be one of .*got 'ignore'"):
        RunOptions(on_error="ignore")


def test_no_workers_are_an_error():
    with pytest.raises(InvalidArgument, match="n_jobs must be None or a whole number other than 0"):
        RunOptions(n_jobs=0)


def test_no_progress_prints_nothing(capsys):
    no_progress("reading", 5, 5)
    assert capsys.readouterr() == ("", "")
