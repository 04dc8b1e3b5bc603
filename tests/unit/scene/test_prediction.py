from dataclasses import replace

import numpy as np
from tests.scene_model import small_model


def test_a_fingerprint_changes_with_arrays_and_classifiers():
    fitted = small_model().fitted_
    head, votes = fitted.class_head, fitted.votes
    for changed in (
        {"class_head": replace(head, gamma=9.0)},
        {"class_head": replace(head, intercept_C=head.intercept_C + 1e-9)},
        {"votes": replace(votes, weight=0.9)},
        {"votes": None},
        {"topics_BH": fitted.topics_BH + np.float32(0.5) * (np.arange(12) == 3)},
    ):
        assert replace(fitted, **changed).fingerprint() != fitted.fingerprint()


def test_a_fingerprint_stays_unless_probabilities_change():
    fitted = small_model().fitted_
    choices = fitted.choices
    same = replace(choices, unsure_below=0.9, tags=replace(choices.tags, threshold=0.9))
    assert replace(fitted, choices=same).fingerprint() == fitted.fingerprint()
    for changed in (
        replace(choices, temperature=9.0),
        replace(choices, tags=replace(choices.tags, offset=9.0)),
    ):
        assert replace(fitted, choices=changed).fingerprint() != fitted.fingerprint()


def test_a_photograph_of_the_training_set_is_at_no_distance_from_itself():
    fitted = small_model().fitted_
    photographs = fitted.compare_counts(fitted.training_set.counts)
    # The stored topics have the precision of float16.
    assert np.diag(photographs.distance_BN).max() < 1e-5
    assert (photographs.distance_BN.argmin(axis=1) == np.arange(24)).all()
