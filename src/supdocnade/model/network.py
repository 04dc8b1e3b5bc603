"""DocNADE and SupDocNADE as torch modules.

DocNADE models a bag of words one word after the other: p(v) = Π_i p(v_i | v_<i), with hidden units
h_i = g(c + Σ_{k<i} W[v_k]) and an output layer with weights V and biases b (`WordOutput`). The
topic representation of a document is h_y = g(c + Σ_k W[v_k]).

A document may have global features f beside its words, such as the pooled features of a photograph
from a pretrained network. Then c + G f takes the place of c, everywhere.

Annotations are words of the joint vocabulary. With `annotation_output="sigmoid"` they are none, and
each has a logistic output: p(a | v) = σ(e_a + T_a · h_y(v)).

SupDocNADE adds a class: p(v, y) = p(y | v) p(v), with p(y | v) = softmax(d + U h_y(v))_y. So the
topic representation must both explain the words and separate the classes. Where documents have
several labels, each has a logistic output: p(c | v) = σ(d_c + U_c · h_y(v)).
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, linear

from supdocnade.checks import check_shape
from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood import Activation, vectorized
from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters, activate
from supdocnade.likelihood.operations import choose_backend, softmax_nll, tree_nll
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.inference import NetworkArrays
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads
from supdocnade.tree import WordTree


class WordOutput:
    """An output layer: p(word | hidden units).

    A layer of one's own derives from this class and defines `log_prob`; the other methods are those
    of a softmax. It has no parameters but V and b, and it is made anew wherever it is needed, so
    `WordOutput(n_words)` must always give the same layer.

    Parameters
    ----------
    n_words : K, the size of the joint vocabulary.
    """

    has_backends = False
    """Whether all backends of the likelihood compute `nll`, or plain torch alone."""

    def __init__(self, n_words: int):
        self.n_words = n_words

    @property
    def n_rows(self) -> int:
        """T, the number of rows of V and b; K by default."""
        return self.n_words

    def unigram_bias(self, counts_K: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return b, (T,), that gives words their smoothed frequencies when V is zero.

        By default they are log frequencies; counts are smoothed by one half, as in the tree.
        """
        check_shape("counts", counts_K.shape, (self.n_words,))
        frequency: NDArray[np.float64] = (counts_K + 0.5) / (counts_K + 0.5).sum()
        return np.log(frequency)

    def log_prob(self, hidden_BH: Tensor, parameters: Parameters, words: Tensor) -> Tensor:
        """Return log p(word | hidden) for every row of `hidden_BH` and every word of `words`.

        Parameters
        ----------
        parameters : `node_weight_TH` is V, `node_bias_T` is b.
        words : numbers of words; over all words the probabilities must sum to 1.
        """
        raise NotImplementedError

    def nll(
        self,
        batch: Batch,
        parameters: Parameters,
        *,
        activation: Activation,
    ) -> DocumentTerms:
        """Return the negative log-likelihood of documents, and their summaries."""
        hidden_NH, summary_BH = vectorized.prefix_sums(batch, parameters, activation)
        words_K = torch.arange(self.n_words, device=hidden_NH.device)
        log_p_NK = self.log_prob(hidden_NH, parameters, words_K)
        log_p_N = log_p_NK.gather(1, batch.word_ids_N.long()[:, None])[:, 0]
        return DocumentTerms(vectorized.sum_by_document(-log_p_N, batch), summary_BH)


class TreeOutput(WordOutput):
    """Tree output: p(word) is the product of the decisions on its path (equations 3 and 4)."""

    has_backends = True

    def __init__(self, tree: WordTree):
        super().__init__(tree.n_words)
        self.tree = tree
        self.nll = partial(tree_nll, tree=tree)  # type: ignore[method-assign]

    @property
    def n_rows(self) -> int:
        """See `WordOutput`."""
        return self.tree.n_nodes

    def unigram_bias(self, counts_K: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `WordOutput`."""
        return self.tree.log_odds(counts_K)


class SoftmaxOutput(WordOutput):
    """Softmax output: p(word) is a softmax over all words (equation 2)."""

    has_backends = True
    nll = staticmethod(softmax_nll)


class DocNADENetwork(nn.Module):
    """The unsupervised network.

    Parameters
    ----------
    tree : assignment of words to leaves; required for the tree output, None for the softmax.
    """

    word_embedding: nn.Parameter
    """W, (K, H); the paper writes H × K."""
    hidden_bias: nn.Parameter
    """c, (H,)."""
    node_weight: nn.Parameter
    """V, (T, H): one row per inner node of the tree, or per word of the softmax."""
    node_bias: nn.Parameter
    """b, (T,)."""
    global_weight: nn.Parameter
    """G, (H, F); only with global features."""
    tag_weight: nn.Parameter
    """T, (A, H); like e only with logistic outputs of annotations."""
    tag_bias: nn.Parameter
    """e, (A,)."""

    def __init__(self, config: DocNADEConfig, tree: WordTree | None = None):
        super().__init__()
        self.config = config
        self.output = _make_output(config, tree)
        n_rows, n_topics = self.output.n_rows, config.n_topics
        self.word_embedding = nn.Parameter(torch.zeros(config.n_words, n_topics))
        self.hidden_bias = nn.Parameter(torch.zeros(n_topics))
        self.node_weight = nn.Parameter(torch.zeros(n_rows, n_topics))
        self.node_bias = nn.Parameter(torch.zeros(n_rows))
        if config.n_global_features:
            self.global_weight = nn.Parameter(torch.zeros(n_topics, config.n_global_features))
        if config.n_tag_outputs:
            self.tag_weight = nn.Parameter(torch.zeros(config.n_tag_outputs, n_topics))
            self.tag_bias = nn.Parameter(torch.zeros(config.n_tag_outputs))

    @property
    def n_summary_words(self) -> int | None:
        """Words with ids below this enter the topic representation; None takes all words."""
        return self.config.n_visual_words

    @property
    def backend(self) -> str:
        """Backend of the likelihood on the current device of the network."""
        weights = self.word_embedding
        if not self.output.has_backends:
            return "vectorized"
        return choose_backend(weights.device, weights.dtype, self.config.activation)

    @property
    def weights(self) -> Parameters:
        """Parameters of the likelihood."""
        return Parameters(self.word_embedding, self.hidden_bias, self.node_weight, self.node_bias)

    @torch.no_grad()
    def initialize(self, documents: Documents, seed: int) -> None:
        """Draw small W, V and G; words, and logistic outputs, start with their frequencies.

        Parameters
        ----------
        documents : on which the network will be trained.
        """
        scale, generator = self.config.init_scale, named_generator(seed, "init")
        for table in (self.word_embedding, self.node_weight):
            drawn = generator.normal(0.0, scale, tuple(table.shape))
            table.copy_(torch.from_numpy(drawn))
        if self.config.n_global_features:
            generator = named_generator(seed, "global features")
            drawn = generator.normal(0.0, scale, tuple(self.global_weight.shape))
            self.global_weight.copy_(torch.from_numpy(drawn))
        self.hidden_bias.zero_()
        bias_T = self.output.unigram_bias(documents.word_counts())
        self.node_bias.copy_(torch.from_numpy(bias_T))
        if self.config.n_tag_outputs:
            self.tag_weight.zero_()
            self.tag_bias.copy_(_log_odds(*documents.presence_counts(documents.tag_BA)))

    def document_bias(self, batch: Batch) -> Tensor:
        """Return c, (H,), or with global features c + G f of every document, (B, H)."""
        features_BF, n_features = batch.global_features_BF, self.config.n_global_features
        found = 0 if features_BF is None else features_BF.shape[1]
        if found != n_features:
            raise InvalidArgument(f"batch must have {n_features} global features, got {found}.")
        if features_BF is None:
            return self.hidden_bias
        features_BF = features_BF.to(self.hidden_bias.dtype)
        return linear(features_BF, self.global_weight, self.hidden_bias)

    def terms(self, batch: Batch) -> DocumentTerms:
        """Return negative log-likelihoods, and the summaries."""
        parameters = self.weights._replace(hidden_bias_H=self.document_bias(batch))
        return self.output.nll(batch, parameters, activation=self.config.activation)

    def log_prob(self, batch: Batch) -> Tensor:
        """Return log p(v) of every document, its tokens in the order of the batch, (B,)."""
        return -self.terms(batch).nll_B

    def summary(self, batch: Batch) -> Tensor:
        """Return c + Σ_k x_k W[v_k] over the tokens that enter the summary, (B, H)."""
        weight_N = batch.input_weight_N
        if batch.n_summary_words is not None:
            enters_N = (batch.word_ids_N < batch.n_summary_words).to(self.word_embedding.dtype)
            weight_N = enters_N if weight_N is None else weight_N * enters_N
        sums_BH = embedding_bag(
            batch.word_ids_N,
            self.word_embedding,
            batch.offsets_B1.to(batch.word_ids_N.dtype)[:-1],
            mode="sum",
            per_sample_weights=weight_N,
        )
        return self.document_bias(batch) + sums_BH

    def tag_logits(self, summary_BH: Tensor) -> Tensor:
        """Return e + T g(summary), (B, A)."""
        hidden_BH = activate(self.config.activation, summary_BH)
        return linear(hidden_BH, self.tag_weight, self.tag_bias)

    def arrays(self) -> NetworkArrays:
        """Return the parameters as arrays, for inference; on a CPU they share their memory."""
        parameters = {name: p.detach().cpu().numpy() for name, p in self.named_parameters()}
        tree = self.output.tree if isinstance(self.output, TreeOutput) else None
        return NetworkArrays(self.config, parameters, tree)


def _make_output(config: DocNADEConfig, tree: WordTree | None) -> WordOutput:
    if config.output != "tree":
        if tree is not None:
            raise InvalidArgument(f"tree must be None with output={config.output!r}, got one.")
        make = config.output if callable(config.output) else SoftmaxOutput
        layer = make(config.n_words)
        if not isinstance(layer, WordOutput):
            raise InvalidArgument(
                "output must be 'tree', 'softmax' or a function that returns a WordOutput, got one "
                f"that returns a {type(layer).__name__}."
            )
        return layer
    if tree is None or tree.n_words != config.n_words:
        got = "none" if tree is None else f"one of {tree.n_words}"
        raise InvalidArgument(f"tree must have {config.n_words} words, got {got}.")
    return TreeOutput(tree)


def random_tree(config: DocNADEConfig, seed: int) -> WordTree | None:
    """Return a random tree for a network, or None for another output."""
    if config.output != "tree":
        return None
    return WordTree.random(config.n_words, named_generator(seed, "tree"))


class SupDocNADENetwork(DocNADENetwork):
    """The supervised network (parameters as for `DocNADENetwork`)."""

    config: SupDocNADEConfig
    label_weight: nn.Parameter
    """U, (C, H)."""
    label_bias: nn.Parameter
    """d, (C,)."""

    def __init__(self, config: SupDocNADEConfig, tree: WordTree | None = None):
        super().__init__(config, tree)
        self.label_weight = nn.Parameter(torch.zeros(config.n_classes, config.n_topics))
        self.label_bias = nn.Parameter(torch.zeros(config.n_classes))

    @property
    def n_summary_words(self) -> int | None:
        """Words with ids below this enter the class term; None takes all words."""
        return None if self.config.class_input == "all" else self.config.n_visual_words

    @torch.no_grad()
    def initialize(self, documents: Documents, seed: int) -> None:
        """Draw small W, V and G; p(y | v) starts as the class prior.

        Parameters
        ----------
        documents : on which the network will be trained.
        """
        super().initialize(documents, seed)
        self.label_weight.zero_()
        if self.config.class_output == "sigmoid":
            self.label_bias.copy_(_log_odds(*documents.presence_counts(documents.label_BC)))
        else:
            smoothed_C = documents.class_counts() + 0.5
            self.label_bias.copy_(torch.from_numpy(np.log(smoothed_C / smoothed_C.sum())))

    def class_logits(self, summary_BH: Tensor) -> Tensor:
        """Return d + U g(summary), (B, C)."""
        hidden_BH = activate(self.config.activation, summary_BH)
        return linear(hidden_BH, self.label_weight, self.label_bias)


def _log_odds(present_A: NDArray[np.float64], absent_A: NDArray[np.float64]) -> Tensor:
    """Return the log odds of outputs, given numbers of documents with and without each."""
    return torch.from_numpy(np.log((present_A + 0.5) / (absent_A + 0.5)))


def make_network(config: DocNADEConfig, tree: WordTree | None) -> DocNADENetwork:
    """Return a network of the kind of its configuration, not initialised."""
    if isinstance(config, SupDocNADEConfig):
        return SupDocNADENetwork(config, tree)
    return DocNADENetwork(config, tree)


@limit_threads()
@torch.no_grad()
def network_from_arrays(arrays: NetworkArrays) -> DocNADENetwork:
    """Return a network with a copy of the parameters in `arrays`."""
    network = make_network(arrays.config, arrays.tree)
    for name, parameter in network.named_parameters():
        parameter.copy_(torch.from_numpy(arrays[name]))
    return network
