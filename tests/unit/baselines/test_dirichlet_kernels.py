"""Kernels of latent Dirichlet allocation: definitions, brute force and finite differences."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.special import digamma, gammaln, log_softmax

from supdocnade.baselines.dirichlet import Bags, States, Topics, infer_topics
from supdocnade.baselines.dirichlet_kernels import _digamma, add_softmax_gradient
from supdocnade.corpus.documents import NO_LABEL

ALPHA, N_TOPICS = 0.7, 3
RANDOM = np.random.default_rng(0)
WORDS_KH = np.ascontiguousarray(RANDOM.dirichlet(np.ones(4), N_TOPICS).T)
TAGS_AH = np.ascontiguousarray(RANDOM.dirichlet(np.ones(2), N_TOPICS).T)
ETA_CH = RANDOM.normal(0, 2, (3, N_TOPICS))
MODEL = Topics(ALPHA, (WORDS_KH, TAGS_AH), ETA_CH)
COUNTS, TAG_COUNTS = [[2, 0, 1, 1]], [[1, 1]]


def bags(label=1, counts=COUNTS, tags=TAG_COUNTS):
    return Bags.from_counts(
        sparse.csr_array(counts), sparse.csr_array(tags), np.full(len(counts), label)
    )


def bound_at(log_u_XH, given, model=MODEL):
    """Return the bound of one document in a given state."""
    states = States.start(1, N_TOPICS)
    states.log_u_XBH[:, 0] = log_u_XH
    infer_topics(given, model, states, n_trials=1, tolerance=0.0)
    return states.bound_B[0]


def infer(given, model=MODEL, n_trials=500):
    states = States.start(len(given.label_B), N_TOPICS)
    infer_topics(given, model, states, n_trials=n_trials, tolerance=0.0)
    return states


@pytest.mark.parametrize("x", [1e-8, 0.01, 0.5, 1.0, 3.3, 7.99, 8.0, 20.0, 1e5])
def test_digamma(x):
    assert _digamma(x) == pytest.approx(digamma(x), rel=1e-12, abs=1e-12)


def test_the_bound_is_its_definition():
    log_u_XH = RANDOM.normal(0, 1, (2, N_TOPICS))
    q_X = []
    for topic_KH, log_u_H in zip(MODEL.topic_X, log_u_XH, strict=True):
        q_KH = topic_KH * np.exp(log_u_H)
        q_X.append(q_KH / q_KH.sum(axis=1, keepdims=True))
    n_X = [np.array(COUNTS[0]), np.array(TAG_COUNTS[0])]
    s_XH = [n @ q for n, q in zip(n_X, q_X, strict=True)]
    gamma_H = ALPHA + sum(s_XH)
    log_theta_H = digamma(gamma_H) - digamma(gamma_H.sum())
    bound = sum(
        (n[:, None] * q * (np.log(topic) + log_theta_H - np.log(q))).sum()
        for n, q, topic in zip(n_X, q_X, MODEL.topic_X, strict=True)
    )
    prior_H = np.full(N_TOPICS, ALPHA)
    for sign, parameter_H in ((1, prior_H), (-1, gamma_H)):
        log_density = gammaln(parameter_H.sum()) - gammaln(parameter_H).sum()
        bound += sign * (log_density + ((parameter_H - 1) * log_theta_H).sum())
    size, word_H = n_X[0].sum(), s_XH[0]
    terms_C = size * np.log((word_H / size) @ np.exp(ETA_CH / size).T)
    bound += ETA_CH[1] @ word_H / size - np.logaddexp.reduce(terms_C)
    assert bound_at(log_u_XH, bags()) == pytest.approx(bound, rel=1e-12)


def exact_log_prob(words, tags, label):
    """Return log p(words, tags, class), by a sum over the topics of all words and tags."""
    total = -np.inf
    tokens = [WORDS_KH[w] for w in words] + [TAGS_AH[a] for a in tags]
    for z in itertools.product(range(N_TOPICS), repeat=len(tokens)):
        n_H = np.bincount(z, minlength=N_TOPICS)
        log_p = gammaln(N_TOPICS * ALPHA) - gammaln(N_TOPICS * ALPHA + len(z))
        log_p += (gammaln(ALPHA + n_H) - gammaln(ALPHA)).sum()
        log_p += sum(np.log(token[j]) for token, j in zip(tokens, z, strict=True))
        if label != NO_LABEL:
            shares_H = np.bincount(z[: len(words)], minlength=N_TOPICS) / len(words)
            log_p += log_softmax(ETA_CH @ shares_H)[label]
        total = np.logaddexp(total, log_p)
    return total


@pytest.mark.parametrize("label", [NO_LABEL, 0, 1, 2])
def test_the_bound_is_below_the_exact_probability(label):
    exact = exact_log_prob([0, 0, 2, 3], [0, 1], label)
    bound = infer(bags(label)).bound_B[0]
    assert exact - 1.2 < bound < exact


def test_with_one_topic_the_bound_is_exact():
    one = Topics(ALPHA, (WORDS_KH[:, :1].copy(), TAGS_AH[:, :1].copy()), ETA_CH[:, :1].copy())
    states = States.start(1, 1)
    infer_topics(bags(), one, states, n_trials=3, tolerance=0.0)
    expected = np.array(COUNTS[0]) @ np.log(one.topic_X[0][:, 0])
    expected += np.log(TAGS_AH[:, 0]).sum() + log_softmax(ETA_CH[:, 0])[1]
    assert states.bound_B[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("label", [NO_LABEL, 2])
def test_inference_ends_where_no_change_helps(label):
    states = infer(bags(label))
    best_XH = states.log_u_XBH[:, 0]
    for x, j in itertools.product(range(2), range(N_TOPICS)):
        step_XH = np.zeros((2, N_TOPICS))
        step_XH[x, j] = 1e-4
        above, below = (bound_at(best_XH + sign * step_XH, bags(label)) for sign in (1, -1))
        assert abs(above - below) / 2e-4 < 1e-5
        assert max(above, below) < states.bound_B[0] + 1e-9


def test_a_step_that_is_too_long_is_shortened():
    # The response turns around with every full step.
    steep = MODEL._replace(eta_CH=60 * ETA_CH)
    bounds = [infer(bags(0), steep, n).bound_B[0] for n in range(1, 25)]
    assert (np.diff(bounds) >= -1e-9).all()
    assert bounds[-1] > bounds[0] + 1


def test_the_gradient_of_the_coefficients_agrees_with_finite_differences():
    counts = RANDOM.poisson(2.0, (5, 4)) + 1
    given = Bags.from_counts(
        sparse.csr_array(counts),
        sparse.csr_array((5, 2)),
        np.array([0, 1, NO_LABEL, 2, 0]),
        np.array([1.0, 2.0, 1.0, 0.5, 1.0]),
    )
    word_BH = infer(given, n_trials=5).expected_XBH[0]

    def response(eta_CH, gradient_CH):
        size_B = given.size_XB[0]
        return add_softmax_gradient(
            word_BH, size_B, given.label_B, given.weight_B, eta_CH, gradient_CH
        )

    gradient_CH, unused = np.zeros_like(ETA_CH), np.zeros_like(ETA_CH)
    response(ETA_CH, gradient_CH)
    for place in np.ndindex(ETA_CH.shape):
        step_CH = np.zeros_like(ETA_CH)
        step_CH[place] = 1e-5
        slope = (response(ETA_CH + step_CH, unused) - response(ETA_CH - step_CH, unused)) / 2e-5
        assert gradient_CH[place] == pytest.approx(slope, abs=1e-8)
