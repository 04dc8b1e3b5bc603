from dataclasses import replace

from tests.scene_model import small_model


def test_a_fingerprint_changes_with_arrays_and_classifiers():
    fitted = small_model().fitted_
    assert small_model("softmax").fitted_.fingerprint() != fitted.fingerprint()
    changed = replace(fitted, class_tag_share_CA=fitted.class_tag_share_CA[::-1])
    assert changed.fingerprint() != fitted.fingerprint()


def test_a_fingerprint_stays_unless_probabilities_change():
    fitted = small_model().fitted_
    choices = fitted.choices
    same = replace(choices, unsure_below=0.9, tags=replace(choices.tags, threshold=0.9))
    assert replace(fitted, choices=same).fingerprint() == fitted.fingerprint()
    for changed in (
        replace(choices, temperature=9.0),
        replace(choices, class_tag_weight=9.0),
        replace(choices, tags=replace(choices.tags, offset=9.0)),
    ):
        assert replace(fitted, choices=changed).fingerprint() != fitted.fingerprint()
