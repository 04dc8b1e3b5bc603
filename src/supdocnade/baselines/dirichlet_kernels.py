"""Variational inference of latent Dirichlet allocation with a response, as compiled kernels.

A document has topic proportions θ ~ Dirichlet(α), each of its words and tags has a topic z ~ θ, and
each topic is a distribution over words and one over tags. The response of a document depends on the
topics of its words, by their frequencies z̄.

Equal words share their distribution over topics, q(z = j) = u_j β_wj / Z_w with Z_w = Σ_j u_j β_wj.
The vector u is the same for all words of a document, because the rest of the bound depends on them
only by the expected counts s_j = Σ_w n_w q(z_w = j). Tags have such a vector, too. log u is the
whole state of a document: with the optimal q(θ), Dirichlet(α + s), the bound of
log p(words, response) is

    Σ_w n_w log Z_w - Σ_j s_j log u_j + log B(α + s) - log B(α) + response(s)

with log B(x) = Σ_j log Γ(x_j) - log Γ(Σ_j x_j). Where it is largest, log u is its target,
Ψ(α + s) + response'(s). A step towards the target is a natural gradient step; it is shortened until
the bound does not fall.

Arrays with the axis X have two entries, for words and for tags. Every document is computed for
itself, so its bits do not depend on the others.
"""

import math

import numpy as np

from supdocnade.jit import exact_kernel, kernel

SOFTMAX, MARGIN = 0, 1
"""Codes of the responses."""

TEMPERATURE = 0.1
"""Temperature T of the smooth maximum in the loss of a margin, too large by T log C at most."""

WORDS, TAGS = 0, 1
"""Entries of the axis X."""

_TINY = 1e-300
_ROUNDING = 1e-12  # Relative error of a bound.
_MIN_RATE = 1e-3


@kernel
def expect_counts(indptr, indices, counts, topic_KH, log_u_BH, is_open_B, expected_BH, bound_B):
    """Write the expected counts s of open documents; add Σ_w n_w log Z_w - Σ_j s_j log u_j."""
    n_topics = topic_KH.shape[1]
    u_H, s_H = np.empty(n_topics), np.empty(n_topics)
    for d in range(len(bound_B)):
        if not is_open_B[d]:
            continue
        for j in range(n_topics):
            u_H[j] = math.exp(log_u_BH[d, j])
            s_H[j] = 0.0
        bound = 0.0
        for p in range(indptr[d], indptr[d + 1]):
            k, z = indices[p], 0.0
            for j in range(n_topics):
                z += topic_KH[k, j] * u_H[j]
            ratio = counts[p] / z
            for j in range(n_topics):
                s_H[j] += ratio * topic_KH[k, j]
            bound += counts[p] * math.log(z)
        for j in range(n_topics):
            s_H[j] *= u_H[j]
            bound -= s_H[j] * log_u_BH[d, j]
        expected_BH[d] = s_H
        bound_B[d] += bound


@kernel
def add_counts(indptr, indices, counts, topic_KH, log_u_BH, weight_B, sums_KH):
    """Add the expected counts n_w q(z_w = j) of every word to a table, weighted by document."""
    n_topics = topic_KH.shape[1]
    u_H = np.empty(n_topics)
    for d in range(len(weight_B)):
        for j in range(n_topics):
            u_H[j] = math.exp(log_u_BH[d, j])
        for p in range(indptr[d], indptr[d + 1]):
            k, z = indices[p], 0.0
            for j in range(n_topics):
                z += topic_KH[k, j] * u_H[j]
            ratio = weight_B[d] * counts[p] / z
            for j in range(n_topics):
                sums_KH[k, j] += ratio * topic_KH[k, j] * u_H[j]


@kernel
def complete_bounds(
    alpha, size_XB, response, cost, label_B, eta_CH, is_open_B, expected_XBH, bound_B, target_XBH
):
    """Add the Dirichlet terms and the response to the bounds; write the targets of log u.

    Parameters
    ----------
    size_XB : numbers of words and tags.
    cost : factor of the loss of a margin.
    label_B : class numbers; below 0 if there is no response.
    """
    n_topics = expected_XBH.shape[2]
    slope_H, scaled_CH, scaled_for = np.empty(n_topics), np.empty_like(eta_CH), -1.0
    for d in range(len(label_B)):
        if not is_open_B[d]:
            continue
        size = size_XB[WORDS, d]
        bound = math.lgamma(n_topics * alpha) - n_topics * math.lgamma(alpha)
        bound -= math.lgamma(n_topics * alpha + size + size_XB[TAGS, d])
        for j in range(n_topics):
            gamma = alpha + expected_XBH[WORDS, d, j] + expected_XBH[TAGS, d, j]
            bound += math.lgamma(gamma)
            target_XBH[:, d, j] = _digamma(gamma)
        if label_B[d] >= 0 and size > 0:
            s_H = expected_XBH[WORDS, d]
            if response == SOFTMAX:
                if size != scaled_for:
                    scaled_for = size
                    _scale_coefficients(eta_CH, size, scaled_CH)
                bound += _softmax_response(s_H, size, label_B[d], eta_CH, scaled_CH, slope_H)
            else:
                bound -= cost * _margin_loss(s_H, size, label_B[d], eta_CH, slope_H)
                slope_H *= -cost
            target_XBH[WORDS, d] += slope_H
        bound_B[d] += bound


@kernel
def accept_or_shorten(
    tolerance_B, is_open_B, rate_B,
    bound_B, log_u_XBH, expected_XBH, target_XBH,
    trial_bound_B, trial_log_u_XBH, trial_expected_XBH, trial_target_XBH,
):  # fmt: skip
    """Accept the trials whose bounds did not fall, shorten other steps, and write the next trials.

    A document is closed when a step gains less than its tolerance, or becomes too short.
    """
    for d in range(len(bound_B)):
        if not is_open_B[d]:
            continue
        gain = trial_bound_B[d] - bound_B[d]
        if gain >= -_ROUNDING * abs(trial_bound_B[d]):
            bound_B[d] = trial_bound_B[d]
            log_u_XBH[:, d] = trial_log_u_XBH[:, d]
            expected_XBH[:, d] = trial_expected_XBH[:, d]
            target_XBH[:, d] = trial_target_XBH[:, d]
            rate_B[d] = min(2 * rate_B[d], 1.0)
            is_open_B[d] = gain > tolerance_B[d]
        else:
            rate_B[d] /= 2
            is_open_B[d] = rate_B[d] >= _MIN_RATE
        rate, trial_bound_B[d] = rate_B[d], 0.0
        for x in range(2):
            largest = -np.inf
            for j in range(log_u_XBH.shape[2]):
                step = rate * (target_XBH[x, d, j] - log_u_XBH[x, d, j])
                trial_log_u_XBH[x, d, j] = log_u_XBH[x, d, j] + step
                largest = max(largest, trial_log_u_XBH[x, d, j])
            # A common factor of u changes nothing; this one prevents overflow.
            for j in range(log_u_XBH.shape[2]):
                trial_log_u_XBH[x, d, j] -= largest


@kernel
def add_softmax_gradient(word_BH, size_B, label_B, weight_B, eta_CH, gradient_CH):
    """Return the weighted sum of the responses, and add its gradient with respect to η."""
    n_classes, n_topics = eta_CH.shape
    scaled_CH, scaled_for = np.empty_like(eta_CH), -1.0
    part_C, log_C = np.empty(n_classes), np.empty(n_classes)
    total = 0.0
    for d in range(len(label_B)):
        label, size = label_B[d], size_B[d]
        if label < 0 or size == 0:
            continue
        if size != scaled_for:
            scaled_for = size
            _scale_coefficients(eta_CH, size, scaled_CH)
        score = 0.0
        for j in range(n_topics):
            score += eta_CH[label, j] * word_BH[d, j]
            gradient_CH[label, j] += weight_B[d] * word_BH[d, j] / size
        log_sum = _class_logits(word_BH[d], size, eta_CH, scaled_CH, part_C, log_C)
        total += weight_B[d] * (score / size - log_sum)
        for c in range(n_classes):
            factor = weight_B[d] * math.exp(log_C[c] - log_sum) / part_C[c]
            for j in range(n_topics):
                gradient_CH[c, j] -= factor * word_BH[d, j] * scaled_CH[c, j]
    return total


@exact_kernel
def _scale_coefficients(eta_CH, size, scaled_CH):
    """Write exp((η - m) / N), with m the largest coefficient of each class."""
    for c in range(eta_CH.shape[0]):
        largest = eta_CH[c].max()
        for j in range(eta_CH.shape[1]):
            scaled_CH[c, j] = math.exp((eta_CH[c, j] - largest) / size)


@exact_kernel
def _class_logits(s_H, size, eta_CH, scaled_CH, part_C, log_C):
    """Return log Σ_c (Σ_j s̄_j exp(η_cj / N))^N, an upper bound of E log Σ_c exp(η_c · z̄).

    Also write Σ_j s_j exp((η_cj - m_c) / N) and the logarithms of the terms of the sum.
    """
    highest = -np.inf
    for c in range(eta_CH.shape[0]):
        part = 0.0
        for j in range(eta_CH.shape[1]):
            part += s_H[j] * scaled_CH[c, j]
        part_C[c] = max(part, _TINY)
        log_C[c] = size * math.log(part_C[c] / size) + eta_CH[c].max()
        highest = max(highest, log_C[c])
    total = 0.0
    for c in range(eta_CH.shape[0]):
        total += math.exp(log_C[c] - highest)
    return highest + math.log(total)


@exact_kernel
def _softmax_response(s_H, size, label, eta_CH, scaled_CH, slope_H):
    """Return a lower bound of E log p(class | z̄); write its gradient with respect to s."""
    n_classes, n_topics = eta_CH.shape
    part_C, log_C = np.empty(n_classes), np.empty(n_classes)
    log_sum = _class_logits(s_H, size, eta_CH, scaled_CH, part_C, log_C)
    score = 0.0
    for j in range(n_topics):
        score += eta_CH[label, j] * s_H[j]
        slope_H[j] = eta_CH[label, j] / size
    for c in range(n_classes):
        factor = size * math.exp(log_C[c] - log_sum) / part_C[c]
        for j in range(n_topics):
            slope_H[j] -= factor * scaled_CH[c, j]
    return score / size - log_sum


@exact_kernel
def _margin_loss(s_H, size, label, eta_CH, slope_H):
    """Return T log Σ_c exp((1[c ≠ y] + (η_c - η_y) · s̄) / T); write its gradient by s.

    For a small T this is the hinge loss, max_c 1[c ≠ y] + (η_c - η_y) · s̄.
    """
    n_classes, n_topics = eta_CH.shape
    violation_C = np.empty(n_classes)
    for c in range(n_classes):
        total = 0.0
        for j in range(n_topics):
            total += (eta_CH[c, j] - eta_CH[label, j]) * s_H[j]
        violation_C[c] = total / size + (c != label)
    highest = violation_C.max()
    share_C = np.exp((violation_C - highest) / TEMPERATURE)
    total = 0.0
    for c in range(n_classes):
        total += share_C[c]
    slope_H[:] = 0.0
    for c in range(n_classes):
        for j in range(n_topics):
            slope_H[j] += share_C[c] / total * (eta_CH[c, j] - eta_CH[label, j]) / size
    return highest + TEMPERATURE * math.log(total)


@exact_kernel
def _digamma(x):
    """Return Ψ(x) for x > 0, to about 1e-12: by recurrence above 8, then its asymptotic series."""
    result = 0.0
    while x < 8.0:
        result -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (
        1 / 240 - square * (1 / 132)))))  # fmt: skip
    return result + math.log(x) - 0.5 / x - series
