"""The processes that train one network together, and what they exchange.

The first process leads: it sends the network and the documents to the others and announces every
epoch; it alone validates, reports and writes checkpoints. All processes have the whole network. In
an update each computes its groups of documents (`groups`). Then every process sums one part of the
gradients over all groups, in the order of the tree, and sends it to all.

Between epochs the others wait for a message, as long as the first process lives. Everything else is
a collective operation of torch with a timeout.
"""

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import cycle
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from supdocnade.errors import InvalidArgument, ProcessLost, TrainingDiverged
from supdocnade.training.groups import (
    GradientLayout,
    GroupSum,
    Node,
    TableRows,
    covering_nodes,
    process_groups,
    sum_groups,
    sum_tree,
)

POLL = timedelta(seconds=30)
"""How long a process waits for a message before it checks that the store still answers."""

LAST_SECONDS = 10.0
"""How long a process that leaves waits for Gloo's threads to release its tensors."""

END, TRAIN, EPOCH, STOP = "end", "train", "epoch", "stop"
"""Messages of the first process: leave, receive a network, run an epoch, drop the network."""

_active: "ProcessGroup | None" = None


def active_group() -> "ProcessGroup | None":
    """Return the processes that share the training of this one; None: it trains alone."""
    return _active


@contextmanager
def activate(group: "ProcessGroup") -> Iterator[None]:
    """Let all trainings within a block use these processes."""
    global _active
    _active = group
    try:
        yield
    finally:
        _active = None


def check_groups(batch_groups: int) -> None:
    """Raise `InvalidArgument` if a batch has fewer groups than there are training processes."""
    if _active is not None and batch_groups < _active.size:
        raise InvalidArgument(
            f"batch_groups must be at least the number of training processes, {_active.size}, "
            f"got {batch_groups}."
        )


@contextmanager
def detect_loss() -> Iterator[None]:
    """Raise `ProcessLost` if the other processes cannot be reached."""
    try:
        yield
    except RuntimeError as error:  # Gloo and the stores raise no narrower class.
        raise ProcessLost(
            "another process of this training ended, or did not answer in time."
        ) from error


class ProcessGroup:
    """Processes connected by torch.distributed.

    Parameters
    ----------
    handle : the group of torch.distributed.
    store : for messages of the first process.
    local : True if all processes are on this machine and share its cores.
    """

    def __init__(self, handle: Any, store: Any, *, local: bool):
        self.rank, self.size, self.local = handle.rank(), handle.size(), local
        self._handle, self._store = handle, store
        self._has_nccl = "nccl" in str(dist.get_backend_config(handle))
        self._n_messages = 0
        self._lock = threading.Lock()
        self.lost = False
        """True if the others cannot be reached, or wait for an exchange that will not come."""

    @contextmanager
    def _exchanging(self) -> Iterator[None]:
        """Note that the others are lost unless a block succeeds."""
        try:
            with detect_loss():
                yield
        except BaseException:
            self.lost = True
            raise

    # Messages.

    def post(self, message: str) -> None:
        """Send a message from the first process to all others."""
        with self._exchanging():
            self._store.set(f"message {self._n_messages}", message)
        self._n_messages += 1

    def receive(self) -> str:
        """Wait for the next message of the first process."""
        key = f"message {self._n_messages}"
        while True:
            with self._exchanging():
                if self._store.check([key]):
                    break
            with suppress(RuntimeError):
                self._store.wait([key], POLL)
        self._n_messages += 1
        with self._exchanging():
            return str(self._store.get(key), "utf-8")

    @contextmanager
    def training(self, task: Any) -> Iterator[None]:
        """Send a task to the other processes, which take part in its epochs within the block."""
        try:
            content = np.frombuffer(pickle.dumps(task), np.uint8)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidArgument(
                f"a model with local functions cannot be sent to training processes: {error}."
            ) from error
        with self._lock:
            if self.lost:
                raise ProcessLost("the training processes were lost in an earlier training.")
            self.post(f"{TRAIN} {len(content)}")
            with self._exchanging():
                dist.broadcast(torch.from_numpy(content.copy()), 0, self._handle)
            try:
                yield
            finally:
                if not self.lost:
                    self.post(STOP)

    def receive_task(self, message: str) -> Any:
        """Return the task that a message announces."""
        content = torch.empty(int(message.removeprefix(TRAIN)), dtype=torch.uint8)
        with self._exchanging():
            dist.broadcast(content, 0, self._handle)
        return pickle.loads(content.numpy().data)

    def leave(self) -> None:
        """Part from the other processes; none leaves before all have read the last message."""
        if self.rank == 0:
            self.post(END)
        sent, received = torch.zeros(self.size), torch.empty(self.size)
        with self._exchanging():
            dist.all_to_all_single(received, sent, group=self._handle)
        # A thread of Gloo releases the tensors a moment later. If it were the last to do so, while
        # the interpreter ends, it would abort the process (docs/decisions/0030-groups.md).
        deadline = time.monotonic() + LAST_SECONDS
        tensors: list[Any] = [sent, received]
        while any(each._use_count() > 1 for each in tensors) and time.monotonic() < deadline:
            time.sleep(0.001)

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Run an epoch in all processes."""
        if self.rank == 0:
            self.post(EPOCH)
        try:
            yield
        except TrainingDiverged:
            raise  # All processes see the same objective, and raise this together.
        except BaseException:
            self.lost = True
            raise

    # Sums.

    def sum_groups(
        self,
        n_groups: int,
        layout: GradientLayout,
        compute: Callable[[int], GroupSum],
        *,
        gradients: bool = True,
    ) -> GroupSum:
        """Return the sum over all groups, of which this process computes some.

        Parameters
        ----------
        layout : of the gradients.
        compute : returns the objective and gradients of a group by its number.
        gradients : False if `compute` returns the objective alone.
        """
        nodes = self._nodes(n_groups, self.rank)
        sums = [sum_groups(node, compute) for node in nodes]
        with self._exchanging():
            own = layout.parameters[0].new_zeros(len(sums), layout.length if gradients else 1)
            for row, each in enumerate(sums):
                own[row] = each.vector_P
            vector_P = self._sum_vectors(n_groups, own)
            tables = self._sum_tables(n_groups, sums, layout) if gradients else ()
        return GroupSum(vector_P, tables)

    def _nodes(self, n_groups: int, rank: int) -> list[Node]:
        """Return the nodes of the tree of sums that a process computes alone."""
        return covering_nodes((0, n_groups), process_groups(n_groups, rank, self.size))

    def _sum_vectors(self, n_groups: int, own_NP: Tensor) -> Tensor:
        """Return the sum of the vectors of all nodes, given those of this process."""
        n_own, length = own_NP.shape
        width = -(-length // self.size)
        padded = torch.nn.functional.pad(own_NP, (0, width * self.size - length))
        by_process = padded.view(n_own, self.size, width).transpose(0, 1).reshape(-1, width)
        nodes = [self._nodes(n_groups, rank) for rank in range(self.size)]
        received = self._exchange(by_process, [n_own] * self.size, [len(each) for each in nodes])
        rows = dict(zip((node for each in nodes for node in each), received, strict=True))
        part = sum_tree((0, n_groups), rows.get, torch.add)
        return self._gather(part)[:length]

    def _sum_tables(
        self, n_groups: int, sums: list[GroupSum], layout: GradientLayout
    ) -> tuple[TableRows, ...]:
        """Return the sums of the tables; every process sums a range of the rows of each."""
        if not layout.tables:
            return ()
        numbers = range(len(layout.tables))
        sent = [
            each.tables[number].between(
                *process_groups(len(layout.tables[number]), rank, self.size)
            )
            for rank in range(self.size)
            for each in sums
            for number in numbers
        ]
        nodes = [self._nodes(n_groups, rank) for rank in range(self.size)]
        n_parts = [len(each) * len(numbers) for each in nodes]
        parts = self._exchange_tables(sent, layout, [n_parts[self.rank]] * self.size, n_parts)
        every_node = [node for each in nodes for node in each]
        totals = []
        for number in numbers:
            of_table = dict(zip(every_node, parts[number :: len(numbers)], strict=True))
            totals.append(sum_tree((0, n_groups), of_table.get, TableRows.add))
        everywhere = self._exchange_tables(
            totals * self.size, layout, [len(numbers)] * self.size, [len(numbers)] * self.size
        )
        return tuple(
            TableRows(*map(torch.cat, zip(*everywhere[number :: len(numbers)], strict=True)))
            for number in numbers
        )

    def _exchange_tables(
        self,
        sent: list[TableRows],
        layout: GradientLayout,
        n_sent: list[int],
        n_received: list[int],
    ) -> list[TableRows]:
        """Send some parts of tables to every process, and return those that it sends.

        Parameters
        ----------
        sent : for the first process, then for the second, and so on.
        n_sent, n_received : how many parts for and from every process.
        """
        table = layout.tables[0]
        counts = torch.tensor([len(rows) for rows, _ in sent], device=table.device)
        their_counts = self._exchange(counts.long(), n_sent, n_received)
        lengths = [
            _sum_pieces(each, number)
            for each, number in ((counts, n_sent), (their_counts, n_received))
        ]
        no_rows = torch.zeros(0, dtype=torch.int64, device=table.device)
        rows = self._exchange(torch.cat([no_rows, *(each.rows_R for each in sent)]), *lengths)
        # Tables may differ in width, so their values are sent as one vector.
        widths = [each.shape[1] for each in layout.tables]
        sizes, their_sizes = (
            each * torch.tensor(widths, device=table.device).repeat(len(each) // len(widths))
            for each in (counts, their_counts)
        )
        values = self._exchange(
            torch.cat([table.detach()[0, :0], *(each.values_RH.flatten() for each in sent)]),
            _sum_pieces(sizes, n_sent),
            _sum_pieces(their_sizes, n_received),
        )
        parts = zip(
            torch.split(rows, their_counts.tolist()),
            torch.split(values, their_sizes.tolist()),
            cycle(widths),
            strict=False,
        )
        return [TableRows(rows_R, each.view(len(rows_R), width)) for rows_R, each, width in parts]

    def _exchange(self, sent: Tensor, n_sent: list[int], n_received: list[int]) -> Tensor:
        """Send the first rows to the first process, the next to the second, and so on.

        Returns
        -------
        The rows of the first process for this one, then those of the second, and so on.
        """
        device = self._exchange_device(sent)
        received = torch.empty(sum(n_received), *sent.shape[1:], dtype=sent.dtype, device=device)
        dist.all_to_all_single(
            received, sent.to(device).contiguous(), n_received, n_sent, self._handle
        )
        return received.to(sent.device)

    def _gather(self, own: Tensor) -> Tensor:
        """Return the vectors of all processes, which are of equal length, joined."""
        device = self._exchange_device(own)
        parts = torch.empty(self.size, len(own), dtype=own.dtype, device=device)
        dist.all_gather(list(parts), own.to(device).contiguous(), self._handle)
        return parts.flatten().to(own.device)

    def _exchange_device(self, tensor: Tensor) -> torch.device:
        """Return the device to send a tensor from."""
        # NCCL does not connect processes that share a GPU.
        return tensor.device if self._has_nccl else torch.device("cpu")


def _sum_pieces(counts: Tensor, sizes: list[int]) -> list[int]:
    """Return the sums of consecutive pieces of a vector.

    >>> _sum_pieces(torch.tensor([1, 2, 3]), [2, 0, 1])
    [3, 0, 3]
    """
    return [int(piece.sum()) for piece in torch.split(counts, sizes)]
