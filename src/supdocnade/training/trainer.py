"""The training loop.

Every random choice is a function of the seed and of the position of the run, so a run that was
killed and resumed from its checkpoint gives bit for bit the network of one that was not.
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from supdocnade.checks import check_shape
from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood.operations import own_part
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.model.outputs import TreeOutput
from supdocnade.runs import ProgressCallback, no_progress
from supdocnade.threads import one_torch_thread
from supdocnade.training.batches import epoch_batches
from supdocnade.training.checkpoint import (
    TrainingState,
    copy_parameters,
    load_checkpoint,
    save_checkpoint,
    set_parameters,
)
from supdocnade.training.history import EpochRecord, History
from supdocnade.training.objective import check_finite
from supdocnade.training.optimizers import make_optimizers
from supdocnade.training.trainer_config import METRICS, TrainerConfig
from supdocnade.training.updates import EagerUpdates, Updates
from supdocnade.training.validation import available_metrics, compute_metrics

if TYPE_CHECKING:
    from supdocnade.training.distributed import TrainingProcesses

REPORT_EVERY = 1_000
"""Updates between reports within an epoch where reading the loss means waiting for a GPU."""


class Trainer:
    """Trains a network on a corpus.

    Parameters
    ----------
    network : an initialized network, trained in place.
    config : settings of the run.
    class_weight : (C,) multiplies the class term of documents of each class.
    checkpoint : file that is written after every epoch, and resumed from if it exists.
    progress : called with `stage`, the updates done and those of all epochs after every update; on
        a GPU, after every epoch and every `REPORT_EVERY` updates within it. The trainer itself
        prints nothing.
    on_epoch : called with the number of every completed epoch before its checkpoint is written;
        after a kill it is called again for an epoch whose checkpoint was not written. If it
        returns True, training ends.
    """

    processes: "ClassVar[TrainingProcesses | None]" = None
    """The processes of torchrun that share all trainings, set by `distributed`."""

    def __init__(
        self,
        network: DocNADENetwork,
        config: TrainerConfig,
        *,
        class_weight: ArrayLike | None = None,
        checkpoint: str | Path | None = None,
        progress: ProgressCallback = no_progress,
        stage: str = "learning",
        on_epoch: Callable[[int], bool | None] | None = None,
    ):
        self.network = network
        self.config = config
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.progress, self.stage = progress, stage
        self.on_epoch = on_epoch
        self.set_class_weight(class_weight)
        self.optimizers = make_optimizers(network, config.optimizer, config.learning_rate)
        self.state = TrainingState()
        self._settings: dict[str, Any] = {}

    def set_class_weight(self, class_weight: ArrayLike | None) -> None:
        """Replace the factors of the class terms, (C,)."""
        self.class_weight = check_class_weight(self.network, class_weight)
        self._own_updates: tuple[Documents, Updates] | None = None

    def fit(self, corpus: Documents, validation: Documents | None = None) -> History:
        """Train until `max_epochs` or until the validation metric stops improving.

        Parameters
        ----------
        corpus : training set.
        validation : measured after every epoch; early stopping needs it.
        """
        check_trainable(self.network, self.config, corpus, validation)
        config, state = self.config, self.state
        if self.checkpoint is not None:
            self._settings = self._describe_settings(corpus, validation)
        with one_torch_thread():
            if self.checkpoint is not None and self.checkpoint.exists():
                state = self.state = load_checkpoint(
                    self.checkpoint, self._settings, self.network, self.optimizers
                )
                self._own_updates = None
            while not state.finished and state.epoch < config.last_epoch:
                self.run_epoch(corpus)
                if validation is not None:
                    self._validate(validation)
                if self.on_epoch is not None and self.on_epoch(state.epoch):
                    state.finished = state.history.stopped_early = True
                self._save()
            if state.best is not None:
                set_parameters(self.network, state.best)
        self._own_updates = None  # Frees much of a GPU's memory.
        return state.history

    def run_epoch(self, corpus: Documents) -> None:
        """Pass over the corpus once."""
        config, state, started = self.config, self.state, time.perf_counter()
        device = torch.cuda.device_of(self.network.word_embedding)  # type: ignore[no-untyped-call]
        shared = nullcontext() if self.processes is None else self.processes.epoch(self, corpus)
        batches = epoch_batches(len(corpus), config.batch_size, config.seed, state.epoch)
        n_updates, epoch, loss = len(batches), state.epoch + 1, 0.0
        with one_torch_thread(), device, shared:
            updates: Updates = self.own_updates(corpus) or EagerUpdates(
                self.network, config, corpus, self.optimizers, self.class_weight, self.processes
            )  # fmt: skip
            updates.begin_epoch(state.epoch, batches)
            every = 1 if updates.synchronous else REPORT_EVERY
            for update in range(1, n_updates + 1):
                updates.run()
                if update == n_updates or update % every == 0:
                    loss = updates.loss_sum() / min(update * config.batch_size, len(corpus))
                    done = state.epoch * n_updates + update
                    self.progress(self.stage, done, config.last_epoch * n_updates)
            updates.end_epoch()
        rate = config.rate_at(state.epoch, max(n_updates - 1, 0), n_updates)
        state.history.epochs.append(EpochRecord(epoch=epoch, learning_rate=rate, loss=loss))
        state.history.seconds.append(time.perf_counter() - started)
        state.epoch = epoch

    def own_updates(self, corpus: Documents) -> Updates | None:
        """Return the updates of the backend, or None if it has none of its own for this corpus."""
        if self.processes is not None:
            return None
        if self._own_updates is None or self._own_updates[0] is not corpus:
            make = own_part(self.network.resolved_backend, "make_updates")
            updates = make and make(
                self.network, self.config, corpus, self.optimizers, self.class_weight
            )
            self._own_updates = None if updates is None else (corpus, updates)
        return None if self._own_updates is None else self._own_updates[1]

    def _validate(self, validation: Documents) -> None:
        """Measure the validation set, keep the best epoch and decide whether to stop early."""
        config, state = self.config, self.state
        metrics = state.history.epochs[-1].validation
        metrics.update(
            compute_metrics(
                self.network,
                validation,
                generative_weight=config.generative_weight,
                annotation_weight=config.annotation_weight,
                seed=config.seed,
                class_weight_C=self.class_weight,
            )
        )
        for name, value in metrics.items():
            when = f"after epoch {state.epoch}"
            check_finite(config, f"the {name} of the validation set", value, when)
        if not config.early_stopping:
            return
        best, sign = state.history.best_epoch, METRICS[config.metric]
        if (
            best is None
            or sign * metrics[config.metric]
            > sign * (state.history.epochs[best - 1].validation[config.metric])
        ):
            state.history.best_epoch = state.epoch
            state.best = copy_parameters(self.network)
            state.epochs_without_gain = 0
        else:
            state.epochs_without_gain += 1
        if state.epochs_without_gain >= config.n_epochs_no_change:
            state.finished = state.history.stopped_early = True

    def _save(self) -> None:
        if self.checkpoint is not None:
            save_checkpoint(
                self.checkpoint, self._settings, self.state, self.network, self.optimizers
            )

    def _describe_settings(self, corpus: Documents, validation: Documents | None) -> dict[str, Any]:
        """Return everything that determines the result, to compare with a checkpoint."""
        output = self.network.output
        tree = output.tree.leaf_of_word_K.tobytes() if isinstance(output, TreeOutput) else b""
        settings = {**asdict(self.network.config), **asdict(self.config)}
        # Functions are compared by their names.
        for name in ("output", "activation"):
            if callable(settings[name]):
                settings[name] = getattr(settings[name], "__qualname__", repr(settings[name]))
        return {
            **settings,
            "backend": self.network.resolved_backend,
            "type": str(self.network.word_embedding.dtype),
            "class_weight": None if self.class_weight is None else self.class_weight.tolist(),
            "tree": hashlib.blake2b(tree, digest_size=16).hexdigest(),
            "data": corpus.fingerprint(),
            "validation data": None if validation is None else validation.fingerprint(),
        }


def check_trainable(
    network: DocNADENetwork,
    config: TrainerConfig,
    corpus: Documents,
    validation: Documents | None,
) -> None:
    """Raise `InvalidArgument` unless network, settings and documents fit together."""
    if len(corpus) == 0:
        raise InvalidArgument("corpus must have a document, got none.")
    if config.generative_weight == 0 and not isinstance(network, SupDocNADENetwork):
        raise InvalidArgument(
            "generative_weight must be above 0 for a network without classes, got 0."
        )
    expected = network.config.n_visual_words, network.config.n_annotation_words
    for name, documents in (("corpus", corpus), ("validation", validation)):
        if documents is None:
            continue
        received = documents.n_visual_words, documents.n_annotation_words
        if received != expected:
            raise InvalidArgument(
                f"{name} must have {expected[0]} visual and {expected[1]} annotation words, "
                f"got {received[0]} and {received[1]}."
            )
        if (documents.tag_BA is not None) != (network.config.n_tag_outputs > 0):
            kind = "no words" if network.config.n_tag_outputs else "words"
            raise InvalidArgument(f"{name} must have annotations that are {kind}, got others.")
        n_features = network.config.n_global_features
        if documents.n_global_features != n_features:
            raise InvalidArgument(
                f"{name} must have {n_features} global features, got {documents.n_global_features}."
            )
        if (
            isinstance(network, SupDocNADENetwork)
            and documents.n_classes > network.config.n_classes
        ):
            raise InvalidArgument(
                f"{name} must have at most {network.config.n_classes} classes, "
                f"got {documents.n_classes}."
            )
        if isinstance(network, SupDocNADENetwork):
            several = network.config.class_output == "sigmoid"
            if (documents.label_BC is not None) != several:
                kind = "several labels" if several else "at most one label"
                raise InvalidArgument(f"{name} must have {kind} per document for this network.")
    if config.early_stopping:
        if validation is None or len(validation) == 0:
            raise InvalidArgument("early_stopping needs a validation set, got none.")
        available = available_metrics(network, validation)
        if config.metric not in available:
            raise InvalidArgument(
                f"metric must be one of {available} for this network and validation set, "
                f"got {config.metric!r}."
            )


def check_class_weight(
    network: DocNADENetwork, class_weight: ArrayLike | None
) -> torch.Tensor | None:
    """Return class weights on the device of the network, (C,), or raise `InvalidArgument`."""
    if class_weight is None:
        return None
    if not isinstance(network, SupDocNADENetwork):
        raise InvalidArgument("class_weight needs a network with classes.")
    weight_C = torch.as_tensor(np.asarray(class_weight, np.float32))
    check_shape("class_weight", weight_C.shape, (network.config.n_classes,))
    if not bool((weight_C.isfinite() & (weight_C >= 0)).all()):
        raise InvalidArgument(
            f"class_weight must be finite and not negative, got {weight_C.tolist()}."
        )
    # An update recorded on a GPU cannot fetch it from the CPU.
    return weight_C.to(network.word_embedding.device)
