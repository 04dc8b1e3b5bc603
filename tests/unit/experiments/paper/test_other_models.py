"""Other topic models in a finished study: their settings are chosen as SupDocNADE's are."""

import numpy as np
from experiments.paper.plans import LDA_SVM, TAGGING_BASELINES, TOPIC_BASELINES
from experiments.paper.topic_models import Evaluation, final_evaluations


def test_every_other_model_predicts_the_test_part_with_its_best_setting(finished):
    assert {each.method for each in finished.plan.others} == set(TOPIC_BASELINES)
    test, metrics = finished.protocol.parts(1).test, set()
    for variant in finished.plan.others:
        candidates = [Evaluation(setting=each, split=1) for each in variant.candidates()]
        found = [finished.prediction(each.key(finished)) for each in candidates]
        final = final_evaluations(finished, variant, 1)[-1]
        metric = "f_measure" if variant.chosen_for == "f_measure" else "svm"
        assert final.held_out == max(score[-1] for each in found for score in each[metric])
        assert final.setting in [each.setting for each in candidates]
        assert set(final.params()) >= set(variant.space())
        prediction = finished.prediction(final.key(finished))
        right = np.array(prediction["predicted"]) == finished.label_B[test]
        # Drawn scenes of eight classes: 1/8 is luck. LDA has too few words for more.
        assert variant.method == LDA_SVM or right.mean() > 2 / 8, variant
        if variant.method in TAGGING_BASELINES:
            assert np.shape(prediction["top_tags"]) == (len(test), 5), variant
        metrics.add(metric)
    assert metrics == {"f_measure", "svm"}
