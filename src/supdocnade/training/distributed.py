"""Training by the processes that torchrun starts, on one machine or several.

    torchrun --nproc-per-node 2 -m supdocnade train photos.corpus -o scenes

The first process runs the command. It sends the network and the documents of every training to the
others. Each process computes the gradients of a part of every batch, and all-reduce adds them up,
so that all make the same update. The same number of processes gives the same bits. The first
process alone validates, reports and writes checkpoints.
"""

import io
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from joblib import cpu_count
from torch import Tensor

from supdocnade.corpus.documents import Documents
from supdocnade.corpus.tokens import Rows
from supdocnade.errors import ProcessLost, TrainingDiverged
from supdocnade.likelihood.contract import Batch
from supdocnade.likelihood.operations import choose_device
from supdocnade.threads import limit_threads
from supdocnade.training.checkpoint import load_moments
from supdocnade.training.trainer import Trainer

TIMEOUT = timedelta(days=1)
"""How long a process waits for others, which may be busy. If one ends, this is noticed at once."""

RELEASE_SECONDS = 10.0
"""How long a process waits until Gloo has released the tensors of a message."""


@contextmanager
def training_processes() -> Iterator[bool]:
    """Let the processes that torchrun started share all trainings of topics within a block.

    The first process runs the block with True. The others compute parts of its trainings, and run
    the block with False when it has finished. Without torchrun there is one process, the first.
    If a process ends, the others raise `ProcessLost`; a fit with a checkpoint can be resumed.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield True
        return
    with _detect_loss():
        dist.init_process_group("gloo", timeout=TIMEOUT)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    SharedTrainer.processes = processes = TrainingProcesses()
    Trainer.substitute = SharedTrainer
    try:
        if processes.is_first:
            yield True
            processes.broadcast(None)
        else:
            processes.follow()
    finally:
        Trainer.substitute = None
    dist.destroy_process_group()
    if not processes.is_first:
        yield False


class TrainingProcesses:
    """The processes that share a training, seen from one of them."""

    def __init__(self) -> None:
        self.is_first = dist.get_rank() == 0
        self._n_threads = max(cpu_count() // int(os.environ["LOCAL_WORLD_SIZE"]), 1)
        self._training: tuple[Trainer | None, Documents | None] = None, None
        self._lost = False

    @contextmanager
    def epoch(self, trainer: Trainer, corpus: Documents) -> Iterator[None]:
        """Let the other processes take part in an epoch that the first runs within a block."""
        if self._lost:
            raise ProcessLost("the other processes were lost in an earlier training.")
        if self.is_first:
            is_new = self._training[0] is not trainer or self._training[1] is not corpus
            self._training = trainer, corpus
            on_gpu = trainer.network.word_embedding.is_cuda
            arguments = trainer.network, trainer.config, trainer.class_weight_C
            moments = trainer.optimizer.state_dict()["state"]
            new = on_gpu, arguments, trainer.history, moments, corpus
            self.broadcast(new if is_new else ())
        try:
            with limit_threads(self._n_threads):
                yield
        except TrainingDiverged:
            raise  # All processes see the same loss, and raise this together.
        except BaseException:
            self._lost = True  # The others wait for sums that will not come.
            raise

    def follow(self) -> None:
        """Take part in the trainings of the first process until it leaves."""
        with suppress(ProcessLost):  # The first process says so.
            while (message := self.broadcast()) is not None:
                if message:
                    on_gpu, (network, config, class_weight_C), history, moments, corpus = message
                    network.to(choose_device("cuda" if on_gpu else "cpu"))
                    trainer = SharedTrainer(network, config, class_weight=class_weight_C)
                    trainer.history = history
                    load_moments(trainer.optimizer, moments)
                with suppress(TrainingDiverged):
                    trainer.run_epoch(corpus)
            return
        raise SystemExit(1)

    def broadcast(self, message: Any = None) -> Any:
        """Send a message from the first process to all others; return it.

        It is a new training, or () for another epoch of the same one, or None at the end.
        """
        buffer = io.BytesIO()
        torch.save(message, buffer)
        content: Any = torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)
        length: Any = torch.tensor(len(content))
        with _detect_loss():
            dist.broadcast(length, 0)
            content = content if self.is_first else torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(content, 0)
        # A thread of Gloo that is the last to hold a tensor while Python ends aborts the process.
        deadline = time.monotonic() + RELEASE_SECONDS
        while max(length._use_count(), content._use_count()) > 1 and time.monotonic() < deadline:
            time.sleep(0.001)
        if self.is_first:
            return message
        return torch.load(io.BytesIO(content.numpy().data), map_location="cpu", weights_only=False)


class SharedTrainer(Trainer):
    """A trainer whose batches are divided among processes."""

    processes: ClassVar[TrainingProcesses]

    def run_epoch(self, documents: Documents) -> None:
        """Pass over the documents once, together with the other processes."""
        with self.processes.epoch(self, documents):
            super().run_epoch(documents)

    def gather(self, documents: Documents, rows_B: Rows) -> Batch:
        """Return the part of some documents that this process computes; it may be empty."""
        part = np.array_split(rows_B, dist.get_world_size())[dist.get_rank()]
        return super().gather(documents, part)

    def differentiate(self, loss: Tensor) -> float:
        """Return the sum of the losses of all processes, and add up their gradients."""
        super().differentiate(loss)
        if not loss.requires_grad:
            return float(_reduce(loss.detach()))
        parameters = list(self.network.parameters())
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        total = _reduce(torch.cat([loss.detach()[None], *map(torch.flatten, gradients)]))
        parts = torch.split(total[1:], [p.numel() for p in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        return float(total[0])


def _reduce(tensor: Tensor) -> Tensor:
    """Add up the tensors of all processes on their CPUs, in an order given by their number."""
    on_cpu = tensor.to("cpu", copy=True)
    with _detect_loss():
        dist.all_reduce(on_cpu)
    return on_cpu.to(tensor.device)


@contextmanager
def _detect_loss() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # Gloo raises nothing narrower.
        raise ProcessLost("another process of this training has ended.") from error
