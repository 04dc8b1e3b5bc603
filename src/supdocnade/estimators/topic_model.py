"""What `DocNADE` and `SupDocNADE` share: their settings and how they are fitted."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from supdocnade.checks import check_choice, check_range
from supdocnade.corpus import Documents
from supdocnade.devices import DEVICES, choose_device
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.fitted_topics import FittedTopics
from supdocnade.estimators.inputs import read_counts_or_corpus, read_seed
from supdocnade.likelihood.cpu.threads import limit_threads
from supdocnade.likelihood.operations import SOFTMAX_NLL as softmax_nll_operation
from supdocnade.likelihood.operations import TREE_NLL as tree_nll_operation
from supdocnade.model.config import DocNADEConfig
from supdocnade.model.network import DocNADENetwork, random_tree
from supdocnade.seeding import named_generator
from supdocnade.training.checkpoint import copy_parameters, load_seed, set_parameters
from supdocnade.training.history import History, TrainingProgress
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

CHECKPOINT = "checkpoint.safetensors"
"""The file in the folder `checkpoint`."""

MOST_THREADS = 1024

WORTH_A_GPU = 2e9
"""Words × topics × epochs that take a CPU some seconds: less than a GPU takes to get going."""


class BegunFit(NamedTuple):
    """A fit whose network is still to be trained."""

    trainer: Trainer
    training: Documents
    validation: Documents | None


class TopicModel(FittedTopics):
    """An autoregressive topic model of counts, with annotations."""

    _trainer: Trainer | None

    _stop_after: int | None = None
    """Epochs after which `fit` ends, its schedule as for all of `max_epochs`."""
    _on_epoch: Callable[[DocNADENetwork, int], None] | None = None
    """Called by `fit` with the network and the number of every epoch that is over."""
    _on_progress: Callable[[TrainingProgress], None] | None = None
    """Called by `fit` after every update, instead of printing."""

    def __init__(
        self,
        n_topics: int = 200,
        *,
        output: str = "tree",
        activation: str = "relu",
        annotation_weight: float = 1.0,
        optimizer: str = "adam",
        learning_rate: float = 3e-4,
        schedule: str = "cosine",
        batch_size: int = 64,
        max_epochs: int = 60,
        clip_norm: float | None = None,
        averaging: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_epochs_no_change: int = 10,
        metric: str = "loss",
        checkpoint: str | Path | None = None,
        backend: str = "auto",
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_topics = n_topics
        self.output = output
        self.activation = activation
        self.annotation_weight = annotation_weight
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.clip_norm = clip_norm
        self.averaging = averaging
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_epochs_no_change = n_epochs_no_change
        self.metric = metric
        self.checkpoint = checkpoint
        self.backend = backend
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # What a subclass decides.

    @abstractmethod
    def _config(self, n_visual_words: int, n_annotation_words: int) -> DocNADEConfig: ...

    @abstractmethod
    def _new_network(self, corpus: Documents, seed: int) -> DocNADENetwork: ...

    @abstractmethod
    def _generative_weight(self) -> float: ...

    @abstractmethod
    def _documents(
        self, X: Any, y: Any, annotations: Any, annotation_mask: Any, sample_weight: Any
    ) -> Documents:
        """Check what `fit` is given, and put it together."""

    def _class_weight_C(self, corpus: Documents) -> NDArray[np.float64] | None:
        return None

    # Fitting.

    def _read_corpus(
        self,
        X: Any,
        labels: NDArray[np.int64] | None,
        n_classes: int,
        annotations: Any,
        annotation_mask: Any,
        sample_weight: Any,
        *,
        reset: bool,
    ) -> Documents:
        """Check everything that a fit is given, and put it together."""
        counts = read_counts_or_corpus(self, X, reset=reset)
        if annotations is None and not reset and self.n_annotations_ > 0:
            # Annotations were modelled before; of these documents they are not known.
            annotations = sparse.csr_array((counts.shape[0], self.n_annotations_))
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if (sample_weight < 0).any():
                raise InvalidArgument(
                    f"sample_weight must not be negative, got {sample_weight.min():g}."
                )
        if labels is not None and len(labels) != counts.shape[0]:
            raise InvalidArgument(
                f"y must have a label or None for each of the {counts.shape[0]} documents of X, "
                f"got {len(labels)} of inconsistent length."
            )
        corpus = Documents.from_counts(
            counts,
            annotations=annotations,
            annotation_mask=annotation_mask,
            labels=labels,
            n_classes=n_classes,
            document_weight=sample_weight,
        )
        if not reset and corpus.n_annotation_words != self.n_annotations_:
            raise InvalidArgument(
                f"annotations must have {self.n_annotations_} columns, as before, "
                f"got {corpus.n_annotation_words}."
            )
        return corpus

    def _fit_corpus(self, corpus: Documents, names: list[str] | None) -> Self:
        """Train a new network."""
        begun = self._begin_fit(corpus)
        with limit_threads(self._n_threads()):
            begun.trainer.fit(begun.training, begun.validation)
        return self._end_fit(begun, names)

    def _begin_fit(self, corpus: Documents) -> "BegunFit":
        """Make a new network and what trains it."""
        self._check_settings()
        self._trainer_config(0, self.max_epochs, self.schedule)  # A bad one draws no seed.
        seed = self._seed()
        training, validation = self._split(corpus, seed)
        network = self._new_network(training, seed)
        network.to(self._training_device(training))
        folder = self.checkpoint
        trainer = Trainer(
            network,
            self._trainer_config(seed, self.max_epochs, self.schedule),
            class_weight=self._class_weight_C(training),
            checkpoint=None if folder is None else Path(folder) / CHECKPOINT,
            on_progress=self._on_progress or (_print_progress if self.verbose else None),
            on_epoch=None if self._on_epoch is None else partial(self._on_epoch, network),
        )
        return BegunFit(trainer, training, validation)

    def _end_fit(self, begun: "BegunFit", names: list[str] | None) -> Self:
        """Take a trained network over."""
        network = begun.trainer.network
        # Answers come from the CPU: the same whatever the model was trained on.
        network.to("cpu")
        network.backend = "auto" if self.backend == "cuda" else self.backend
        self._learned(network, names, begun.trainer.config.seed)
        self.history_ = begun.trainer.state.history
        self._trainer = None
        return self

    def _partial_fit_corpus(self, corpus: Documents, names: list[str] | None) -> Self:
        """Pass over the corpus once, at a constant learning rate."""
        self._check_settings()
        self._check_names(names)
        seed = getattr(self, "seed_", None)
        seed = self._seed() if seed is None else seed
        config = self._trainer_config(seed, 1, "constant", plain=True)
        class_weight_C = self._class_weight_C(corpus)
        if not hasattr(self, "network_"):
            network = self._new_network(corpus, seed)
            network.backend = "auto" if self.backend == "cuda" else self.backend
            self._learned(network, names, seed)
            self.history_ = History()
        trainer = getattr(self, "_trainer", None)
        if trainer is None or trainer.config.optimizer != config.optimizer:
            trainer = Trainer(self.network_, config)
            trainer.state.history, trainer.state.epoch = self.history_, len(self.history_.epochs)
        trainer.config = config
        trainer.on_progress = _print_progress if self.verbose else None
        trainer.set_class_weight(class_weight_C)
        before = copy_parameters(self.network_)
        # Should the pass fail half-way, the optimiser is forgotten and the parameters come back.
        self._trainer = None
        try:
            with limit_threads(self._n_threads()):
                trainer.run_epoch(corpus)
        except BaseException:
            set_parameters(self.network_, before)
            raise
        self._trainer = trainer
        return self

    def _check_names(self, names: list[str] | None) -> None:
        """Refuse annotation columns that are not named as they were before."""
        if names is None or not hasattr(self, "network_"):
            return
        before = None if self.annotation_names_ is None else self.annotation_names_.tolist()
        if names != before:
            raise InvalidArgument(
                f"annotation_names must be those of the first call, {before}, got {names}."
            )

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo whatever a fit has learned of itself if it fails or is interrupted."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            forgotten = vars(self).get("_trainer", self) is None
            self.__dict__.clear()
            self.__dict__.update(before)
            if forgotten:
                self._trainer = None
            raise

    def _learned(self, network: DocNADENetwork, names: list[str] | None, seed: int) -> None:
        self.network_ = network
        self.seed_ = seed
        self.n_annotations_ = network.config.n_annotation_words
        self.annotation_names_ = None if names is None else np.array(names, object)

    def _check_settings(self) -> None:
        check_choice("device", self.device, DEVICES)
        check_range("validation_fraction", self.validation_fraction, above=0, most=1)
        whole = isinstance(self.n_jobs, int | np.integer) and not isinstance(self.n_jobs, bool)
        if self.n_jobs is not None and not (whole and 0 < abs(self.n_jobs) <= MOST_THREADS):
            raise InvalidArgument(
                f"n_jobs must be None or a whole number other than 0, at most {MOST_THREADS}, "
                f"got {self.n_jobs!r}."
            )

    def _training_device(self, corpus: Documents) -> torch.device:
        """Return where to train: unasked on a GPU only if there is enough to do."""
        if self.device != "auto" or self.backend == "cuda":
            return choose_device("cuda" if self.device == "auto" else self.device)
        work = int(corpus.length_B.sum()) * self.n_topics * self.max_epochs
        if self.backend != "auto" or work < WORTH_A_GPU or not torch.cuda.is_available():
            return choose_device("cpu")
        operation = tree_nll_operation if self.output == "tree" else softmax_nll_operation
        fused = operation.choose("auto", torch.device("cuda"), torch.float32) == "cuda"
        return choose_device("cuda" if fused else "cpu")

    def _seed(self) -> int:
        if self.random_state is None and self.checkpoint is not None:
            path = Path(self.checkpoint) / CHECKPOINT
            stored = load_seed(path) if path.exists() else None
            if stored is not None:
                return stored
        return read_seed(self.random_state)

    def _trainer_config(
        self, seed: int, max_epochs: int, schedule: str, *, plain: bool = False
    ) -> TrainerConfig:
        """Return the settings of a run; a plain one neither averages nor stops early."""
        return TrainerConfig(
            generative_weight=self._generative_weight(),
            annotation_weight=self.annotation_weight,
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            schedule=schedule,
            batch_size=self.batch_size,
            max_epochs=max_epochs,
            stop_after=None if plain else self._stop_after,
            clip_norm=self.clip_norm,
            averaging=None if plain else self.averaging,
            early_stopping=False if plain else bool(self.early_stopping),
            n_epochs_no_change=self.n_epochs_no_change,
            metric=self.metric,
            seed=seed,
        )

    def _split(self, corpus: Documents, seed: int) -> tuple[Documents, Documents | None]:
        """Hold documents out for early stopping: the same share of every class."""
        if not self.early_stopping:
            return corpus, None
        generator = named_generator(seed, "split")
        held_out = np.zeros(len(corpus), np.bool_)
        for label in np.unique(corpus.label_B):
            members = generator.permutation(np.flatnonzero(corpus.label_B == label))
            share = min(round(self.validation_fraction * len(members)), len(members) - 1)
            held_out[members[:share]] = True
        if not held_out.any():
            raise InvalidArgument(
                f"early_stopping needs a validation part, but validation_fraction = "
                f"{self.validation_fraction:g} of {len(corpus)} documents leaves none."
            )
        return corpus.take(np.flatnonzero(~held_out)), corpus.take(np.flatnonzero(held_out))

    def _network_of(
        self, corpus: Documents, seed: int, kind: type[DocNADENetwork]
    ) -> DocNADENetwork:
        """Return an initialised network for a corpus."""
        config = self._config(corpus.n_visual_words, corpus.n_annotation_words)
        network = kind(config, random_tree(config, seed), backend=self.backend)
        network.initialize(corpus.word_counts(), seed)
        return network


def _print_progress(progress: TrainingProgress) -> None:
    if progress.update == progress.n_updates:
        # partial_fit has no last epoch: its passes are only counted.
        of_all = f"/{progress.max_epochs}" if progress.epoch <= progress.max_epochs else ""
        print(f"epoch {progress.epoch}{of_all}: loss {progress.loss:.4f}", flush=True)
