"""The training loop.

Every random choice is a function of the seed and of where the run stands, so a run that was killed
and resumed from its checkpoint gives bit for bit the network of one that was not.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from supdocnade.corpus import Documents
from supdocnade.corpus.tokens import Rows
from supdocnade.likelihood.cpu.threads import one_torch_thread
from supdocnade.model import DocNADENetwork
from supdocnade.model.outputs import TreeOutput
from supdocnade.seeding import token_order
from supdocnade.training.batches import LabelledBatch, batch_loss, epoch_batches, make_batch
from supdocnade.training.checkpoint import (
    TrainingState,
    copy_parameters,
    load_checkpoint,
    save_checkpoint,
    set_parameters,
)
from supdocnade.training.config import EpochRecord, History, Progress, Schedule, TrainerConfig
from supdocnade.training.cuda_graph import GraphedUpdates, bytes_to_record
from supdocnade.training.device_corpus import LEAST_HASH_BITS, most_words, resident_documents
from supdocnade.training.optimizers import (
    clip_gradients,
    make_optimizers,
    set_rate,
    settle_gradients,
)
from supdocnade.training.validation import check_finite, check_trainable, class_weight_of, validate

REPORT_EVERY = 1_000
"""On a GPU progress is reported at the end of an epoch, and after so many updates of a long one: to
know the loss is to wait for it."""

HIGHER_IS_BETTER = {"loss": False, "perplexity": False, "accuracy": True, "f_measure": True}


class Trainer:
    """Trains a network on a corpus.

    Parameters
    ----------
    network : an initialised network; it is trained in place.
    config : how to train it.
    class_weight : (C,) multiplies the class term of documents of each class.
    checkpoint : a file that is written after every epoch, and resumed from if it is there.
    checkpoint_every : also write it after this many updates within an epoch.
    on_progress : called after every update; on a GPU, after an epoch and every so many updates of
        a long one. The trainer itself prints nothing.
    on_epoch : called with the number of every epoch that is over, before it is checkpointed: after
        a kill it is called again for an epoch whose checkpoint was not written.
    """

    def __init__(
        self,
        network: DocNADENetwork,
        config: TrainerConfig,
        *,
        class_weight: ArrayLike | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_epoch: Callable[[int], None] | None = None,
    ):
        self.network = network
        self.config = config
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.checkpoint_every = checkpoint_every
        self.on_progress = on_progress
        self.on_epoch = on_epoch
        self.set_class_weight(class_weight)
        self.optimizers = make_optimizers(network, config.optimizer, config.learning_rate)
        self.state = TrainingState()
        if config.averaging is not None:
            self.state.average = copy_parameters(network)
        self._settings: dict[str, Any] = {}
        self._graphed: tuple[Documents, GraphedUpdates] | None = None

    def set_class_weight(self, given: ArrayLike | None) -> None:
        """Change what multiplies the class term of documents of each class, (C,)."""
        self.class_weight = class_weight_of(self.network, given)
        self._graphed = None

    def fit(self, corpus: Documents, validation: Documents | None = None) -> History:
        """Train until `max_epochs` or until the validation metric stops improving.

        Parameters
        ----------
        corpus : what is learned from.
        validation : what is measured after every epoch; early stopping needs it.
        """
        with one_torch_thread():
            return self._fit(corpus, validation)

    def _fit(self, corpus: Documents, validation: Documents | None) -> History:
        self.start(corpus, validation)
        while self.going:
            self.run_epoch(corpus)
            self.end_epoch(validation)
        return self.finish()

    def start(self, corpus: Documents, validation: Documents | None) -> None:
        """Check what is given, and go back to where a checkpoint is."""
        check_trainable(self.network, self.config, corpus, validation)
        self._settings = self._describe_settings(corpus, validation)
        if self.checkpoint is not None and self.checkpoint.exists():
            self.state = load_checkpoint(
                self.checkpoint, self._settings, self.network, self.optimizers
            )
            self._graphed = None

    @property
    def going(self) -> bool:
        """Whether there is an epoch left."""
        last_epoch = min(self.config.stop_after or np.inf, self.config.max_epochs)
        return not self.state.finished and self.state.epoch < last_epoch

    def end_epoch(self, validation: Documents | None) -> None:
        """Measure, decide, report and save after an epoch."""
        self._judge(validation)
        if self.on_epoch is not None:
            self.on_epoch(self.state.epoch)
        self._save()

    def finish(self) -> History:
        """Let the network have the parameters that are kept."""
        kept = self.state.best or self.state.average
        if kept is not None:
            set_parameters(self.network, kept)
        self._graphed = None  # It holds on to much of a GPU's memory.
        return self.state.history

    def run_epoch(self, corpus: Documents) -> None:
        """Pass over the corpus once, or over what is left of the epoch, and record it."""
        place = torch.cuda.device_of(self.network.word_embedding)  # type: ignore[no-untyped-call]
        with one_torch_thread(), place:
            self._run_updates(corpus)

    def _run_updates(self, corpus: Documents) -> None:
        started = time.perf_counter()
        parts = self.parts(corpus)
        for _ in self._updates(corpus, parts):
            self.report(len(parts))
        self.end_updates(len(parts), time.perf_counter() - started)

    def report(self, n_parts: int) -> None:
        """Tell of the updates so far, whose loss is known, and save them if that is due."""
        state = self.state
        if self.on_progress is not None:
            mean = state.loss_sum / state.n_seen
            self.on_progress(
                Progress(state.epoch + 1, self.config.max_epochs, state.update, n_parts, mean)
            )
        due = self.checkpoint_every and state.update % self.checkpoint_every == 0
        if due and state.update < n_parts:
            self._save()

    def parts(self, corpus: Documents) -> list[Rows]:
        """Return the documents of every update of the current epoch."""
        return epoch_batches(
            len(corpus), self.config.batch_size, self.config.seed, self.state.epoch
        )

    def _updates(self, corpus: Documents, parts: list[Rows]) -> Iterator[None]:
        """Do the updates that are left of an epoch; pause where its loss so far is known."""
        graphed = self.graphed(corpus) if parts else None
        if graphed is not None:
            self.begin_epoch(graphed, parts)
            while self.state.update < len(parts):
                if self.run_next(graphed, len(parts)):
                    self.read_loss(graphed, parts)
                    yield
            return
        schedule, epoch = Schedule(self.config, len(parts)), self.state.epoch
        for number in range(self.state.update, len(parts)):
            batch = self._batch(corpus, parts[number])
            rate, decay = schedule.rate(epoch, number), schedule.decay(epoch, number)
            loss = self._update(batch, rate, decay)
            self.state.update = number + 1
            self.state.loss_sum += loss * len(batch)
            self.state.n_seen += len(batch)
            yield
        if parts:
            self._check_last_update(corpus, parts[-1])

    def run_next(self, graphed: GraphedUpdates, n_parts: int) -> bool:
        """Start the next update of an epoch; return whether to look at the loss after it."""
        graphed.run()
        self.state.update += 1
        every = self.checkpoint_every or REPORT_EVERY
        return self.state.update == n_parts or self.state.update % every == 0

    def graphed(self, corpus: Documents) -> GraphedUpdates | None:
        """Return what does the updates on a GPU, or None if they are done one by one."""
        if not self.network.word_embedding.is_cuda or self.network.resolved_backend != "cuda":
            return None
        n_words = self.network.config.n_words
        if n_words == 1 or not corpus.length_B.any():
            return None
        if self._graphed is None or self._graphed[0] is not corpus:
            card = torch.cuda.get_device_properties(self.network.word_embedding.device)
            if corpus.length_B.sum() > most_words(card.total_memory):
                return None
            if bytes_to_record(self.network) > card.total_memory // 4:
                return None
            documents = resident_documents(corpus, self.network.word_embedding.device)
            if documents.hash_bits < LEAST_HASH_BITS:
                return None
            updates = GraphedUpdates(
                self.network,
                self.config,
                documents,
                self.optimizers,
                self.class_weight,
                self.state.average,
            )
            self._graphed = corpus, updates
        return self._graphed[1]

    def begin_epoch(self, graphed: GraphedUpdates, parts: list[Rows]) -> None:
        """Let the GPU get ready for an epoch, or for what is left of it."""
        schedule, epoch = Schedule(self.config, len(parts)), self.state.epoch
        graphed.begin(
            epoch,
            np.concatenate(parts),
            self.state.update,
            self.state.loss_sum,
            np.array([schedule.rate(epoch, number) for number in range(len(parts))]),
            np.array([schedule.decay(epoch, number) for number in range(len(parts))]),
        )

    def read_loss(self, graphed: GraphedUpdates, parts: list[Rows]) -> None:
        """Wait for the updates so far, and see what they came to."""
        state = self.state
        state.loss_sum = graphed.loss_sum()
        state.n_seen = sum(len(part) for part in parts[: state.update])
        self._check_finite("the objective", state.loss_sum, f"in epoch {state.epoch + 1}")
        finite = [p.isfinite().all() for p in self.network.parameters()]
        if not bool(torch.stack(finite).all()):
            self._check_finite("a parameter", math.nan, f"in epoch {state.epoch + 1}")

    def end_updates(self, n_parts: int, seconds: float) -> None:
        """Record an epoch."""
        state = self.state
        record = EpochRecord(
            epoch=state.epoch + 1,
            learning_rate=Schedule(self.config, n_parts).rate(state.epoch, max(n_parts - 1, 0)),
            loss=state.loss_sum / max(state.n_seen, 1),
        )
        state.history.epochs.append(record)
        state.history.seconds.append(seconds)
        state.epoch, state.update, state.loss_sum, state.n_seen = state.epoch + 1, 0, 0.0, 0

    def _batch(self, corpus: Documents, documents: Rows) -> LabelledBatch:
        """Gather documents, their words in an order that no other epoch gives them."""
        lengths = corpus.length_B[documents]
        order = token_order(self.config.seed, self.state.epoch, documents, lengths)
        return make_batch(
            corpus,
            documents,
            order,
            annotation_weight=self.config.annotation_weight,
            n_summary_words=self.network.n_summary_words,
        ).to(self.network.word_embedding.device)

    def _update(self, batch: LabelledBatch, rate: float, decay: float) -> float:
        """Move the parameters by one step; return the objective before it."""
        config, parameters = self.config, list(self.network.parameters())
        for parameter in parameters:
            parameter.grad = None
        loss = batch_loss(self.network, batch, config.generative_weight, self.class_weight)
        value = float(loss.detach())
        self._check_finite("the objective", value)
        loss.backward()  # type: ignore[no-untyped-call]
        settle_gradients(parameters)
        if config.clip_norm is not None:
            norm = clip_gradients(parameters, config.clip_norm)
            self._check_finite("the norm of the gradients", float(norm))
        for optimizer in self.optimizers:
            set_rate(optimizer, rate)
            optimizer.step()
        if self.state.average is not None:
            with torch.no_grad():
                for name, parameter in self.network.named_parameters():
                    self.state.average[name].lerp_(parameter, 1 - decay)
        return value

    def _check_last_update(self, corpus: Documents, documents: Rows) -> None:
        """Look at the objective once more: no later update of this epoch would notice it."""
        config = self.config
        with torch.no_grad():
            batch = self._batch(corpus, documents)
            loss = batch_loss(self.network, batch, config.generative_weight, self.class_weight)
        self._check_finite("the objective", float(loss), f"after epoch {self.state.epoch + 1}")

    def _check_finite(self, what: str, value: float, when: str = "") -> None:
        when = when or f"in epoch {self.state.epoch + 1}, update {self.state.update + 1}"
        check_finite(self.config, what, value, when)

    def _judge(self, validation: Documents | None) -> None:
        """Measure, remember the best epoch, and decide whether to go on."""
        config, state = self.config, self.state
        if validation is None:
            return
        record = state.history.epochs[-1]
        with self._averaged():
            record.validation.update(
                validate(
                    self.network,
                    validation,
                    generative_weight=config.generative_weight,
                    annotation_weight=config.annotation_weight,
                    seed=config.seed,
                    class_weight_C=self.class_weight,
                )
            )
            for name, value in record.validation.items():
                self._check_finite(
                    f"the validation part's {name}", value, f"after epoch {state.epoch}"
                )
            if not config.early_stopping:
                return
            value = record.validation[config.metric]
            best = state.history.best_epoch
            sign = 1 if HIGHER_IS_BETTER[config.metric] else -1
            if (
                best is None
                or sign * value > sign * state.history.epochs[best - 1].validation[config.metric]
            ):
                state.history.best_epoch = state.epoch
                state.best = copy_parameters(self.network)
                state.epochs_without_gain = 0
            else:
                state.epochs_without_gain += 1
        if state.epochs_without_gain >= config.n_epochs_no_change:
            state.finished = state.history.stopped_early = True

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Let the network have its averaged parameters for a while, if there are any."""
        if self.state.average is None:
            yield
            return
        current = copy_parameters(self.network)
        set_parameters(self.network, self.state.average)
        try:
            yield
        finally:
            set_parameters(self.network, current)

    def _save(self) -> None:
        if self.checkpoint is not None:
            save_checkpoint(
                self.checkpoint, self._settings, self.state, self.network, self.optimizers
            )

    def _describe_settings(self, corpus: Documents, validation: Documents | None) -> dict[str, Any]:
        """Return everything that fixes the result, to compare a checkpoint with."""
        if self.checkpoint is None:
            return {}
        output = self.network.output
        tree = output.tree.leaf_of_word_K.tobytes() if isinstance(output, TreeOutput) else b""
        weight = None if self.class_weight is None else self.class_weight.tolist()
        return {
            **asdict(self.network.config),
            **asdict(self.config),
            "backend": self.network.resolved_backend,
            "type": str(self.network.word_embedding.dtype),
            "class_weight": weight,
            "tree": hashlib.blake2b(tree, digest_size=16).hexdigest(),
            "data": corpus.fingerprint(),
            "validation data": None if validation is None else validation.fingerprint(),
        }
