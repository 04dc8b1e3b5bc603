"""Latent Dirichlet allocation with classes and tags: `SLDA` and `MMLDA`."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from supdocnade.baselines.dirichlet import Bags, Floats, States
from supdocnade.baselines.dirichlet_kernels import (
    MARGIN,
    SOFTMAX,
    TEMPERATURE,
    WORDS,
    add_softmax_gradient,
)
from supdocnade.baselines.dirichlet_model import DirichletModel, Loss
from supdocnade.checks import document_settings, setting
from supdocnade.threads import SMALL_WORK, run_parts


@document_settings
class SLDA(DirichletModel):
    """Topics of words and annotations, whose frequencies in a document predict its class.

    A document draws topic proportions θ from a Dirichlet distribution, for each word a topic from θ
    and the word from the topic, and its class from a softmax of η · z̄, with z̄ the frequencies of
    the topics of its words. An annotation is drawn as a word is, from the topics' distributions
    over annotations. Parameters maximise a lower bound of the likelihood, by variational EM.

    Attributes
    ----------
    components_ : (topics, words) array
        p(word | topic).
    annotation_components_ : (topics, annotations) array
        p(annotation | topic).
    coef_ : (classes, topics) array
        η.
    classes_ : array
        The classes, sorted.
    bounds_ : (iterations,) array
        The bound of the training documents with the penalties, which never falls.
    n_iter_, n_features_in_, n_annotations_, annotation_names_
        Number of iterations, of words and of annotations, and the names of annotations.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[9, 2, 0, 0], [0, 0, 8, 9]] * 20), ["sea", "city"] * 20
    >>> model = SLDA(n_topics=2, random_state=0).fit(X, y)
    >>> model.predict([[3, 0, 0, 0], [0, 0, 1, 4]]).tolist()
    ['sea', 'city']
    """

    _response = SOFTMAX

    def _response_loss(self, bags: Bags, states: States, n_classes: int) -> Loss:
        word_BH, size_B = states.expected_XBH[WORDS], bags.size_XB[WORDS]
        parts = bags.parts(n_classes * self.n_topics)

        def loss(eta_CH: Floats) -> tuple[float, Floats]:
            gradient_PCH, value_P = np.zeros((len(parts), *eta_CH.shape)), np.empty(len(parts))

            def add_part(number: int) -> None:
                rows = slice(*parts[number])
                value_P[number] = add_softmax_gradient(
                    word_BH[rows], size_B[rows], bags.label_B[rows], bags.weight_B[rows],
                    eta_CH, gradient_PCH[number],
                )  # fmt: skip

            run_parts(add_part, range(len(parts)), small=word_BH.size * len(eta_CH) < SMALL_WORK)
            return -value_P.sum(), -gradient_PCH.sum(axis=0)

        return loss


@document_settings
@dataclass(kw_only=True, eq=False, repr=False)
class MMLDA(DirichletModel):
    """Topics of words and annotations, in which classes are separated by a large margin.

    Words and annotations share the topic proportions of a document. Its class is the one with the
    largest η · z̄, with z̄ the expected frequencies of the topics of its words. A fit maximises the
    bound of the likelihood of words and annotations minus `cost` times the hinge losses
    max_c 1[c ≠ y] + (η_c - η_y) · z̄, so that topics are both likely and separated. The maximum is a
    smooth one of temperature 0.1.

    Attributes
    ----------
    components_, annotation_components_, coef_, classes_, bounds_, n_iter_, n_features_in_, \
n_annotations_, annotation_names_
        As in `SLDA`; `bounds_` also has the losses.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[9, 2, 0, 0], [0, 0, 8, 9]] * 20), ["sea", "city"] * 20
    >>> model = MMLDA(n_topics=2, random_state=0).fit(X, y)
    >>> model.predict([[3, 0, 0, 0], [0, 0, 1, 4]]).tolist()
    ['sea', 'city']
    """

    cost: float = setting(0.3, "Factor of the hinge losses.", above=0)

    _response = MARGIN

    @property
    def _cost(self) -> float:  # type: ignore[override]
        return self.cost

    def _response_loss(self, bags: Bags, states: States, n_classes: int) -> Loss:
        size_B = bags.size_XB[WORDS]
        used = (bags.label_B >= 0) & (size_B > 0)
        share_BH = states.expected_XBH[WORDS][used] / size_B[used, None]
        weight_B1 = self.cost * bags.weight_B[used, None]
        true_BC = np.eye(n_classes)[bags.label_B[used]]

        def loss(eta_CH: Floats) -> tuple[float, Floats]:
            score_BC = share_BH @ eta_CH.T
            right_B1 = (score_BC * true_BC).sum(axis=1, keepdims=True)
            violation_BC = (score_BC - right_B1 + 1 - true_BC) / TEMPERATURE
            loss_B = TEMPERATURE * logsumexp(violation_BC, axis=1)
            slope_BC = weight_B1 * (softmax(violation_BC, axis=1) - true_BC)
            return weight_B1[:, 0] @ loss_B, slope_BC.T @ share_BH

        return loss
