"""Supervised latent Dirichlet allocation with classes and tags (Wang, Blei and Fei-Fei 2009)."""

import numpy as np

from supdocnade.baselines.dirichlet import Bags, Floats, States
from supdocnade.baselines.dirichlet_kernels import SOFTMAX, WORDS, add_softmax_gradient
from supdocnade.baselines.dirichlet_model import DirichletModel, Loss
from supdocnade.threads import SMALL_WORK, run_parts


class SLDA(DirichletModel):
    """Topics of words and annotations, whose frequencies in a document predict its class.

    A document draws topic proportions θ from a Dirichlet distribution, for each word a topic from θ
    and the word from the topic, and its class from a softmax of η · z̄, with z̄ the frequencies of
    the topics of its words. An annotation is drawn as a word is, from the topics' distributions
    over annotations. Parameters maximise a lower bound of the likelihood, by variational EM.

    Parameters
    ----------
    n_topics : int, default=50
        Number of topics.
    topic_prior : float, default=1.0
        α of the Dirichlet distribution.
    smoothing : float, default=0.01
        How often every word, and every annotation, is counted in each topic beside the data.
    penalty : float, default=0.01
        Factor of Σ η² / 2, which is subtracted from the bound.
    annotation_weight : float, default=1.0
        How often an annotation is counted.
    max_iter : int, default=50
        Iterations of EM, at most.
    tol : float, default=1e-5
        Relative gain of the bound at which a fit ends.
    n_jobs : int or None, default=None
        Number of threads; None means as many as torch uses. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Determines the first topics; an integer makes the fit reproducible.

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
