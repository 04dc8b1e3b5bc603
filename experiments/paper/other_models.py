"""Other topic models: sLDA and MMLDA; Replicated Softmax and LDA, whose topics an SVM classifies.

Their settings are chosen as SupDocNADE's are: in every split, on the same held-out photographs.
"""

from typing import Any

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation

from experiments.paper.kernel_svm import predict_svm, rbf_kernel, score_svms, standardize
from experiments.paper.plans import LDA_SVM, MMLDA_NAME, SLDA_NAME, SOFTMAX_SVM
from experiments.paper.study import Study
from experiments.paper.topic_models import (
    FIT,
    Evaluation,
    Indices,
    final_evaluations,
    known_tags,
    make_predictions,
)
from supdocnade.baselines import MMLDA, SLDA, ReplicatedSoftmax
from supdocnade.metrics import N_TAGS, f_measure, top_ranked
from supdocnade.runs import RunOptions

CLASSIFIERS: dict[str, type[SLDA | MMLDA]] = {SLDA_NAME: SLDA, MMLDA_NAME: MMLDA}
TRANSFORMERS: dict[str, Any] = {
    SOFTMAX_SVM: ReplicatedSoftmax,
    LDA_SVM: LatentDirichletAllocation,
}


def run_other_models(study: Study, options: RunOptions = RunOptions()) -> None:
    """Make the predictions that are missing, for choosing and then for testing."""
    jobs = [(each, split) for each in study.plan.others for split in range(study.plan.n_splits)]
    candidates = [
        Evaluation(setting=setting, split=split)
        for variant, split in jobs
        for setting in variant.candidates()
    ]
    make_predictions(study, candidates, _fit_and_predict, options, "other models for choosing")
    final = [each for variant, split in jobs for each in final_evaluations(study, variant, split)]
    final.sort(key=lambda each: each.setting.n_topics, reverse=True)  # The longest first.
    make_predictions(study, final, _fit_and_predict, options, "other models for testing")


def _fit_and_predict(study: Study, evaluation: Evaluation) -> dict[str, Any]:
    """Fit a model; score it on the held-out photographs, or predict the test part."""
    parts = study.protocol.parts(evaluation.split)
    is_fit = evaluation.part == FIT
    learn, other = (parts.fit, parts.held) if is_fit else (parts.train, parts.test)
    by_svm = evaluation.setting.model in TRANSFORMERS
    predict = _classify_topics if by_svm else _classify_and_annotate
    return {"device": "CPU", **predict(study, evaluation, learn, other)}


def _classify_topics(
    study: Study, evaluation: Evaluation, learn: Indices, other: Indices
) -> dict[str, Any]:
    setting, labels = evaluation.setting, study.label_B
    (counts,) = study.counts(setting.recipe, evaluation.split, setting.grid)
    model = TRANSFORMERS[setting.model](
        setting.n_topics, random_state=evaluation.split, **setting.values
    )
    topics_BH = model.fit(counts[learn]).transform(counts).astype(np.float64)
    values_BH = standardize(topics_BH, learn)
    kernel = rbf_kernel(values_BH[learn], values_BH[other])
    if evaluation.part == FIT:
        return {"svm": score_svms(kernel, labels[learn], labels[other])}
    predicted = predict_svm(kernel, labels[learn], evaluation.C, evaluation.gamma)
    return {"predicted": predicted.tolist()}


def _classify_and_annotate(
    study: Study, evaluation: Evaluation, learn: Indices, other: Indices
) -> dict[str, Any]:
    setting, labels = evaluation.setting, study.label_B
    (counts,) = study.counts(setting.recipe, evaluation.split, setting.grid)
    model = CLASSIFIERS[setting.model](
        setting.n_topics, random_state=evaluation.split, n_jobs=1, **setting.values
    )
    model.fit(counts[learn], labels[learn], **known_tags(study, setting.tags, learn))
    predicted, top = model.predict(counts[other]), None
    if setting.tags is not None:
        top = top_ranked(model.annotation_proba(counts[other]), N_TAGS)
    if evaluation.part != FIT:
        found = {"predicted": predicted.tolist()}
        return found if top is None else {**found, "top_tags": top.tolist()}
    # There is no SVM whose C and γ could be chosen.
    scores: dict[str, Any] = {"svm": [[0.0, 0.0, float((predicted == labels[other]).mean())]]}
    if top is not None and setting.tags is not None:
        true_TA = study.photos.tag_counts(setting.tags)[0][other].toarray() > 0
        scores["f_measure"] = [[0.0, f_measure(top, true_TA)]]
    return scores
