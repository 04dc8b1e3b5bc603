"""SupDocNADE: DocNADE with a class.

p(v, y) = p(y | v) Π_i p(v_i | v_<i), with p(y | v) = softmax(d + U h_y(v))_y. The topic features
h_y serve both: they must explain the words and tell the classes apart.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax

from supdocnade.models.config import SupDocNADEConfig
from supdocnade.models.docnade import DocNADENetwork
from supdocnade.ops.contract import DocumentBatch, activate
from supdocnade.shapes import check_shape
from supdocnade.tree import WordTree


class SupDocNADENetwork(DocNADENetwork):
    """The supervised network (parameters as for `DocNADENetwork`)."""

    config: SupDocNADEConfig
    label_weight: nn.Parameter
    """U, (C, H)."""
    label_bias: nn.Parameter
    """d, (C,)."""

    def __init__(
        self, config: SupDocNADEConfig, tree: WordTree | None = None, *, backend: str = "auto"
    ):
        super().__init__(config, tree, backend=backend)
        self.label_weight = nn.Parameter(torch.zeros(config.n_classes, config.n_topics))
        self.label_bias = nn.Parameter(torch.zeros(config.n_classes))

    @property
    def n_summary_words(self) -> int | None:
        """Below which id words enter the class term; None: all of them."""
        return None if self.config.class_input == "all" else self.config.n_visual_words

    @torch.no_grad()
    def initialize_classes(self, class_counts_C: NDArray[np.float64]) -> None:
        """Set U to zero and d to the log-frequencies: the model starts with the class prior."""
        check_shape("class_counts", class_counts_C.shape, (self.config.n_classes,))
        frequency = (class_counts_C + 0.5) / (class_counts_C + 0.5).sum()
        self.label_weight.zero_()
        self.label_bias.copy_(torch.from_numpy(np.log(frequency)))

    def class_logits(self, summary_BH: Tensor) -> Tensor:
        """Return d + U g(summary), (B, C)."""
        hidden_BH = activate(self.config.activation, summary_BH)
        return linear(hidden_BH, self.label_weight, self.label_bias)

    def class_log_prob(self, batch: DocumentBatch) -> Tensor:
        """Return log p(y | v) for every class, (B, C)."""
        return log_softmax(self.class_logits(self.summary(batch)), dim=1)

    def joint_log_prob(self, batch: DocumentBatch, labels_B: Tensor) -> Tensor:
        """Return log p(v, y) of every document and its label, (B,): the paper's Algorithm 1.

        Which words the class is predicted from follows `class_input`, whatever the batch says.
        """
        terms = self.terms(batch._replace(n_summary_words=self.n_summary_words))
        log_p_BC = log_softmax(self.class_logits(terms.summary_BH), dim=1)
        return log_p_BC.gather(1, labels_B[:, None])[:, 0] - terms.nll_B
