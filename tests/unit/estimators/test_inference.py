import numpy as np
from scipy import sparse

from supdocnade.estimators.inference import add_classes, class_tag_shares

RNG = np.random.default_rng(0)
ANNOTATIONS = sparse.csr_array((RNG.random((40, 9)) < 0.3).astype(np.int64))
LABELS = RNG.integers(-1, 3, size=40)


def test_shares_are_those_of_the_tags_of_a_class():
    share = class_tag_shares(ANNOTATIONS, LABELS, 4)
    np.testing.assert_allclose(share.sum(axis=1), 1)
    for label in range(3):
        counts = ANNOTATIONS.toarray()[label == LABELS].sum(axis=0)
        np.testing.assert_allclose(share[label], (counts + 1 / 9) / (counts.sum() + 1))
    np.testing.assert_allclose(share[3], 1 / 9)  # Of no document.
    assert (share > 0).all()


def test_scores_are_the_formula_and_a_document_does_not_depend_on_the_others():
    share = class_tag_shares(ANNOTATIONS, LABELS, 3)
    log_p, proba = np.log(RNG.random((20, 9))), RNG.dirichlet(np.ones(3), 20)
    scores = add_classes(log_p, proba, share, 0.5)
    np.testing.assert_allclose(scores, log_p + 0.5 * np.log(proba @ share))
    alone = [add_classes(log_p[i : i + 1], proba[i : i + 1], share, 0.5)[0] for i in range(20)]
    np.testing.assert_array_equal(scores, alone)
    np.testing.assert_array_equal(add_classes(log_p, proba, share, 0.0), log_p)
