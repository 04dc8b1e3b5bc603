"""Latent Dirichlet allocation with classes and tags: `SLDA` and `MMLDA`.

The class depends on the topics of a document by a response, the only thing that differs.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.baselines.dirichlet import (
    Bags,
    Floats,
    States,
    Topics,
    infer_topics,
    normalize_topics,
    sum_counts,
)
from supdocnade.baselines.dirichlet_kernels import (
    MARGIN,
    SOFTMAX,
    TAGS,
    TEMPERATURE,
    WORDS,
    add_softmax_gradient,
)
from supdocnade.checks import check_count, check_settings, document_settings, setting
from supdocnade.corpus.documents import read_annotations
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import (
    CountTransformer,
    classes_of,
    number_labels,
    read_annotation_names,
    read_counts,
    read_labels,
    read_sample_weight,
    read_seed,
    require_labels,
)
from supdocnade.estimators.scoring import accuracy_of_known
from supdocnade.estimators.settings import check_n_jobs
from supdocnade.metrics import perplexity, top_ranked
from supdocnade.model.inference import affine
from supdocnade.seeding import named_generator
from supdocnade.threads import SMALL_WORK, limit_threads, one_blas_thread, run_parts

Loss = Callable[[Floats], tuple[float, Floats]]
"""A function of the coefficients (C, H) that returns a value and its gradient."""

FIT_TRIALS, FIT_TOLERANCE = 5, 1e-6
"""States that are tried per document and iteration of a fit, and the gain per word at which a
document is finished. States are kept from one iteration to the next."""

MAX_HALVINGS = 10
"""How often an update of the topics is shortened, before the fit ends without it."""

COEFFICIENT_STEPS = 20
"""Steps of L-BFGS for the coefficients in an iteration, at most."""

SMALL_GAINS = 5
"""A fit ends after as many small gains. The first topics are nearly equal; in short documents they
drift apart slowly at first, then faster."""

INFERENCE_TRIALS, INFERENCE_TOLERANCE = 200, 1e-7


@dataclass(eq=False, repr=False)
class DirichletModel(ClassifierMixin, CountTransformer):  # type: ignore[misc]
    """Topics of words and tags, with a response that depends on the topics of the words.

    Subclasses define the response. `dirichlet_kernels` has the model and its bound.
    """

    n_topics: int = setting(50, "Number of topics.", least=1)
    _: KW_ONLY
    topic_prior: float = setting(1.0, "α of the Dirichlet distribution.", above=0)
    smoothing: float = setting(
        0.01,
        "How often every word, and every annotation, is counted in each topic beside the data.",
        above=0,
    )
    penalty: float = setting(
        0.01, "Factor of Σ η² / 2, which is subtracted from the bound.", above=0
    )
    annotation_weight: float = setting(1.0, "How often an annotation is counted.", least=0)
    max_iter: int = setting(50, "Iterations of EM, at most.", least=1)
    tol: float = setting(1e-5, "A fit ends after five relative gains below it in a row.", least=0)
    n_jobs: int | None = setting(
        None, "Threads; by default, torch's setting. The result does not depend on it.", kind="int"
    )
    random_state: Any = setting(
        None,
        "Determines the first topics; an integer makes the fit reproducible.",
        kind="int or RandomState",
    )

    _response: ClassVar[int]
    """Code of the response."""
    _cost = 1.0
    """Factor of the loss of a margin."""

    @abstractmethod
    def _response_loss(self, bags: Bags, states: States, n_classes: int) -> Loss:
        """Return the loss of the responses of all documents, as a function of η."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        annotations: Any = None,
        annotation_mask: ArrayLike | None = None,
        annotation_names: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn topics, annotations and classes of documents by variational EM.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            which is read into memory.
        y : (documents,) classes; None, NaN or NA where the class is unknown.
        annotations : (documents, annotations) counts; an empty row has no annotations.
        annotation_mask : (documents,) false where the annotations are unknown.
        annotation_names : names of the columns of `annotations`.
        sample_weight : (documents,) multiplies a document's part of the objective; a document of
            weight 2 counts as two documents.
        """
        check_settings(self)
        check_n_jobs(self.n_jobs)
        labels, known = read_labels(require_labels(self, y))
        classes = classes_of(labels, known)
        names = read_annotation_names(annotations, annotation_names)
        words = read_counts(self, X, reset=True)
        if len(labels) != words.shape[0]:
            raise InvalidArgument(
                f"y must have a label or None for each of the {words.shape[0]} documents of X, "
                f"got {len(labels)} of inconsistent length."
            )
        tags = read_annotations(annotations, annotation_mask, words.shape[0])
        if tags is None:
            tags = sparse.csr_array((words.shape[0], 0))
        bags = Bags.from_counts(
            words,
            tags * float(self.annotation_weight),
            number_labels(labels, known, classes),
            read_sample_weight(sample_weight, X),
        )
        with limit_threads(self.n_jobs), one_blas_thread():
            topics, bounds = self._run_em(bags, len(classes), read_seed(self.random_state))
        self.classes_, self.n_annotations_ = classes, tags.shape[1]
        self.annotation_names_ = None if names is None else np.array(names, object)
        self.components_, self.annotation_components_ = (
            np.ascontiguousarray(topic.T) for topic in topics.topic_X
        )
        self.coef_, self.bounds_, self.n_iter_ = topics.eta_CH, np.array(bounds), len(bounds)
        return self

    def _run_em(self, bags: Bags, n_classes: int, seed: int) -> tuple[Topics, list[float]]:
        """Return topics and coefficients, and the objective after every inference."""
        generator = named_generator(seed, "topics")
        draws = [generator.gamma(100, 0.01, (c.shape[1], self.n_topics)) for c in bags.counts_X]
        words_KH, tags_AH = (normalize_topics(each, 0.0) for each in draws)
        topics = self._topics(words_KH, tags_AH, np.zeros((n_classes, self.n_topics)))
        states = States.start(len(bags.label_B), self.n_topics)
        bounds = [self._continue_inference(bags, topics, states)]
        while len(bounds) < self.max_iter:
            words_KH, tags_AH = (
                normalize_topics(sum_counts(bags, topics, states, x), self.smoothing)
                for x in (WORDS, TAGS)
            )
            eta_CH = self._update_coefficients(bags, states, topics.eta_CH)
            update = self._topics(words_KH, tags_AH, eta_CH)
            topics, states, bound = self._accept_update(bags, topics, update, states, bounds[-1])
            bounds.append(bound)
            gains = np.diff(bounds[-SMALL_GAINS - 1 :])
            if len(gains) == SMALL_GAINS and (gains < self.tol * abs(bounds[-1])).all():
                break
        return topics, bounds

    def _update_coefficients(self, bags: Bags, states: States, eta_CH: Floats) -> Floats:
        """Return coefficients whose penalised loss is lower than, or the same as, before."""
        response_loss = self._response_loss(bags, states, len(eta_CH))

        def objective(flat: Floats) -> tuple[float, Floats]:
            loss, gradient_CH = response_loss(flat.reshape(eta_CH.shape))
            value = 0.5 * self.penalty * float(flat @ flat) + loss
            return value, self.penalty * flat + gradient_CH.ravel()

        before = objective(eta_CH.ravel())[0]
        options = {"maxiter": COEFFICIENT_STEPS}
        found = minimize(objective, eta_CH.ravel(), jac=True, method="L-BFGS-B", options=options)
        improved_CH: Floats = found.x.reshape(eta_CH.shape)
        return improved_CH if found.fun <= before else eta_CH

    def _accept_update(
        self, bags: Bags, topics: Topics, update: Topics, states: States, bound: float
    ) -> tuple[Topics, States, float]:
        """Return an update with its states, shortened until the objective does not fall.

        A full update nearly always improves it. There is no guarantee, because documents keep u and
        not q(z), which also depends on the topics.
        """
        for _ in range(MAX_HALVINGS):
            trial = States(*(each.copy() for each in states))
            trial_bound = self._continue_inference(bags, update, trial)
            if trial_bound >= bound:
                return update, trial, trial_bound
            pairs = zip(topics.topic_X, update.topic_X, strict=True)
            words_KH, tags_AH = (0.5 * (old + new) for old, new in pairs)
            update = self._topics(words_KH, tags_AH, 0.5 * (topics.eta_CH + update.eta_CH))
        return topics, states, bound

    def _continue_inference(self, bags: Bags, topics: Topics, states: States) -> float:
        """Improve the states of documents and return the objective.

        It is the bound of all documents and the logarithms of the priors of the parameters.
        """
        infer_topics(bags, topics, states, n_trials=FIT_TRIALS, tolerance=FIT_TOLERANCE)
        smoothed = sum(float(np.log(topic).sum()) for topic in topics.topic_X)
        squares = float((topics.eta_CH**2).sum())
        bound = float((bags.weight_B * states.bound_B).sum())
        return bound + self.smoothing * smoothed - 0.5 * self.penalty * squares

    def _topics(self, words_KH: Floats, tags_AH: Floats, eta_CH: Floats) -> Topics:
        alpha, cost = float(self.topic_prior), float(self._cost)
        return Topics(alpha, (words_KH, tags_AH), eta_CH, self._response, cost)

    # Inference.

    def _infer(self, X: Any) -> tuple[States, Floats]:
        """Return the states of documents whose tags and classes are unknown, and their sizes."""
        words = self._read_counts(X)
        bags = Bags.from_counts(words, sparse.csr_array((words.shape[0], self.n_annotations_)))
        topic_X = [self.components_, self.annotation_components_]
        words_KH, tags_AH = (np.ascontiguousarray(each.T) for each in topic_X)
        topics = self._topics(words_KH, tags_AH, self.coef_)
        states = States.start(words.shape[0], self.n_topics)
        with limit_threads(self.n_jobs):
            infer_topics(
                bags, topics, states, n_trials=INFERENCE_TRIALS, tolerance=INFERENCE_TOLERANCE
            )
        return states, bags.size_XB[WORDS]

    def transform(self, X: Any) -> Floats:
        """Return the expected frequencies z̄ of the topics of every document, (documents, topics).

        Rows sum to 1. A document without words has every topic equally often.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`.
        """
        states, size_B = self._infer(X)
        empty_B1 = size_B[:, None] == 0
        shares_BH: Floats = states.expected_XBH[WORDS] / np.where(empty_B1, 1, size_B[:, None])
        return np.where(empty_B1, 1 / self.n_topics, shares_BH)

    def _weigh_topics(self, X: Any, weight_CH: Floats) -> Floats:
        """Return sums of weights over the topics z̄ of every document, (documents, C)."""
        shares_BH = self.transform(X)
        with limit_threads(self.n_jobs):
            return affine(shares_BH, weight_CH, np.zeros(len(weight_CH)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every document with the largest score.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        """
        check_is_fitted(self, "components_")
        predicted: NDArray[Any] = self.classes_[self._weigh_topics(X, self.coef_).argmax(axis=1)]
        return predicted

    def predict_proba(self, X: Any) -> Floats:
        """Return the softmax of η · z̄, (documents, classes).

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        """
        check_is_fitted(self, "components_")
        p_BC: Floats = np.exp(log_softmax(self._weigh_topics(X, self.coef_), axis=1))
        return p_BC

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on the documents whose class is known.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        y : (documents,) the true classes; None, NaN or NA where unknown.
        sample_weight : (documents,) weights of the documents.
        """
        return accuracy_of_known(self, X, y, self.predict(X), sample_weight)

    def annotation_proba(self, X: Any) -> Floats:
        """Return the probability of every annotation among all of them; rows sum to 1.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        """
        check_is_fitted(self, "components_")
        if self.n_annotations_ == 0:
            raise InvalidArgument(
                f"this {type(self).__name__} was fitted without annotations, it cannot annotate."
            )
        return self._weigh_topics(X, np.ascontiguousarray(self.annotation_components_.T))

    def annotate(self, X: Any, top: int = 5) -> NDArray[Any]:
        """Return the most probable annotations of every document, (documents, top).

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        top : how many, at most as many as there are.

        Returns
        -------
        Names if `fit` was given names, otherwise column numbers; most probable first, equally
        probable ones by their number.
        """
        best = top_ranked(self.annotation_proba(X), check_count("top", top, least=1))
        names = self.annotation_names_
        chosen: NDArray[Any] = best if names is None else names[best]
        return chosen

    def log_prob_bound(self, X: Any) -> Floats:
        """Return a lower bound of log p(v) of every document, its words in one fixed order.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        """
        return self._infer(X)[0].bound_B

    def perplexity(self, X: Any, average: str = "document") -> float:
        """Return an upper bound of the perplexity per word, computed from `log_prob_bound`.

        Documents without words are skipped.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        average : "document", exp(-mean of log p(v) / |v|), as in publications, or "corpus",
            exp(-Σ log p(v) / Σ |v|).
        """
        states, size_B = self._infer(X)
        return perplexity(states.bound_B, size_B, average)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # One of scikit-learn's checks has two features, whose shares do not tell its classes apart.
        tags.classifier_tags.poor_score = True
        return tags


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
