"""Drawn photographs and one finished study of them."""

import warnings

import pytest
from experiments.paper.stages import STAGES, run_stage
from tests.photosets import OTHER_NUMBERS, draw_labelme, small_study

from supdocnade.runs import RunOptions


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    return draw_labelme(tmp_path_factory.mktemp("photographs"))


@pytest.fixture(scope="session")
def finished(drawn, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=OTHER_NUMBERS.removeprefix("ignore:"))
        study = small_study(tmp_path_factory.mktemp("study"), drawn)
    for stage in STAGES:
        run_stage(study, stage, RunOptions(device="cpu", n_jobs=1))
    return study
