"""DocNADE as a scikit-learn transformer."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from supdocnade.estimators.topic_model import TopicModel


class DocNADE(TopicModel):
    """A neural autoregressive topic model of word counts.

    p(v) = Π_i p(v_i | v_<i), the words of every document in a fresh random order at every update.
    Annotations share the vocabulary with the words and are predicted from them. Global features, if
    `fit` is given any, condition the model: p(v | f).

    Parameters
    ----------
    n_topics : int, default=200
        H, the number of topics (hidden units).
    output : {"tree", "softmax"} or callable, default="tree"
        Conditionals: a balanced tree of binary decisions with the words at its leaves, at a cost
        of log K per word, or a softmax over all K words. Or a function of K that returns a
        `WordOutput`, such as a class derived from it.
    tree : {"random", "clustered"}, default="random"
        Leaves of the words in the tree: at random, as in the paper, or so that words of the same
        documents share subtrees, which lowers the perplexity of texts. Other outputs ignore it.
    activation : {"relu", "tanh", "sigmoid"} or callable, default="relu"
        g, the activation of the topics, or a differentiable function from a torch tensor to one of
        the same shape, element by element. A model with a function for `output` or `activation`
        trains in plain torch, on the CPU unless `device` says otherwise, and cannot be saved.
    annotation_output : {"words", "sigmoid"}, default="words"
        Annotations are words of the joint vocabulary, as in the paper, or no words: then each has a
        logistic output on the topic features, p(a | v) = σ(e_a + T_a · h_y(v)). A document with
        unknown annotations has no loss for them.
    annotation_weight : float, default=1.0
        Weight of an annotation relative to a word in the objective; 1 in the paper. With
        `annotation_output="sigmoid"` the factor of Σ_a -log p(t_a | v), the sum over all
        annotations a document has or lacks: at 1 they count as the class does.
    global_dropout : float, default=0.5
        Probability with which an update ignores a global feature of a document; used only if
        `fit` is given global features.
    optimizer : {"adam", "sgd"}, default="adam"
    learning_rate : float, default=3e-4
    schedule : {"cosine", "constant"}, default="cosine"
        The learning rate falls to zero at `max_epochs`, or stays.
    batch_size : int, default=64
        Documents per update.
    max_epochs : int, default=60
    clip_norm : float, optional
        Gradients with a larger norm are scaled down to this one.
    early_stopping : bool, default=False
        Hold a part of the documents out, stop when `metric` on it stops improving, and keep the
        best epoch.
    validation_fraction : float, default=0.1
        Share of the documents of every class that is held out.
    n_epochs_no_change : int, default=10
        Epochs without improvement before early stopping.
    metric : {"loss", "perplexity", "accuracy", "mean_average_precision", "f_measure"}, \
default="loss"
        Metric of early stopping, as far as the model has it: the mean average precision is that of
        several labels per document, the F-measure that of annotations.
    checkpoint : path of a folder, optional
        `fit` writes its state there after every epoch and resumes from it if settings and data
        are the same; otherwise it raises.
    backend : {"auto", "cpu", "cuda", "vectorized", "reference"}, default="auto"
        Implementation of the likelihood; on a CPU "cuda" means "auto".
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where `fit` trains; "auto": on a GPU, if there is one and enough to do. The precision of
        products on a GPU follows `torch.set_float32_matmul_precision`. `partial_fit` and inference
        use the CPU.
    n_jobs : int, optional
        Threads; None: torch's setting. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        An integer makes every result reproducible.
    verbose : int, default=0
        Above 0: print a line per epoch.

    Attributes
    ----------
    components_ : (topics, words + annotations) array
        W, transposed.
    history_ : History
        Objective and validation metrics of every epoch.
    network_ : DocNADENetwork
        The fitted network.
    annotation_names_ : array of str, or None
    n_annotations_ : int
    n_features_in_ : int
    n_global_features_ : int
        0 without global features.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[4, 2, 0, 0], [0, 0, 3, 3]])
    >>> topics = DocNADE(n_topics=3, max_epochs=2, random_state=0).fit(X)
    >>> topics.transform(X).shape
    (2, 3)
    """

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        annotations: Any = None,
        annotation_mask: ArrayLike | None = None,
        annotation_names: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
        global_features: ArrayLike | None = None,
    ) -> Self:
        """Pass over the documents once at a constant learning rate.

        The first call fixes the words, the annotations and the tree. Parameters as for `fit`.
        """
        self._pass_over(
            X, annotations, annotation_mask, annotation_names, sample_weight, global_features
        )
        return self

    def score(self, X: Any, y: Any = None, *, global_features: ArrayLike | None = None) -> float:
        """Return the mean log-likelihood per word, in nats.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        y : ignored.
        global_features : (documents, features) as for `fit`.
        """
        perplexity = self.perplexity(X, average="corpus", global_features=global_features)
        return -float(np.log(perplexity))
