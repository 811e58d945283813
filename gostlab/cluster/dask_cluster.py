# SPDX-License-Identifier: MIT
"""Run on the workers of a Dask cluster: a slot is a worker, a job is a future.

gostlab.scheduler.executor still does the scheduling, progress, stopping and resuming; this module
provides the slots and starts runs in them. A Dask scheduler executes any code that it receives, so
connections are limited to this machine or TLS.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import shutil
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from gostlab import api, safe_read
from gostlab.cluster import worker as remote
from gostlab.cluster.worker import RUN_FOLDER, Identity
from gostlab.results import read_status
from gostlab.sandbox import MachineError
from gostlab.scheduler.executor import Starter, WorkerLost
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

PACKAGE = "--dask needs Dask.distributed: run ./lab setup --with dask"
ONE_AUTHORITY = (
    "scheduler, workers and this machine need certificates of one authority:"
    " docs/how-to/dask-cluster.md"
)
CONNECT_S = 15.0
FETCH_S = 300.0  # time limit for fetching a run's files over a slow link
LOOK_EVERY_S = 0.5
# This is the time limit without a worker: a nanny restarts one in seconds, a queue in minutes.
PATIENCE_S = 120.0
# Two runs of one seed must have these files bit for bit (docs/explanation/repeatability.md).
REPEATED = ("flows.json", "legs.json", "queues.jsonl", "sockets.jsonl", "acks.csv.gz")


@dataclass
class Cluster:
    """A scheduler and its workers, as slots for runs."""

    client: Any  # distributed.Client
    mine: Identity
    gost: Path | None
    say: Callable[[str], None]
    identify: Callable[..., Any] = remote.identify
    make: Callable[..., Any] = remote.make_run
    accepted: dict[str, Identity] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)  # workers that have made a run
    _looked_at: float = float("-inf")
    _able_at: float | None = None  # time at which a suitable worker was last seen
    _here: dict[str, str] = field(default_factory=dict)  # name by address
    _mutex: threading.RLock = field(default_factory=threading.RLock)

    def __iter__(self) -> Iterator[str]:
        """Yield the addresses of the workers that can start a run now.

        Raises MachineError if there has been none for too long, or all present ones are refused.
        """
        there = self.able()
        if there or self._able_at is None:
            self._able_at = time.monotonic()
        elif self._here and all(address in self.refused for address in self._here):
            raise MachineError(f"no worker is left: {self.reasons}")
        elif time.monotonic() - self._able_at > PATIENCE_S:
            raise MachineError(f"no worker for {PATIENCE_S:.0f} s: {self.reasons or 'all left'}")
        return iter(there)

    def __len__(self) -> int:
        return len(self.able())

    def able(self) -> list[str]:
        with self._mutex:
            self.look()
            return [address for address in self.accepted if address in self._here]

    @property
    def reasons(self) -> str:
        return "; ".join(dict.fromkeys(self.refused.values()))

    def __contains__(self, address: object) -> bool:
        return address in list(iter(self))

    def look(self) -> None:
        """Ask the scheduler for its workers from time to time, and identify new ones."""
        with self._mutex:
            if time.monotonic() - self._looked_at < LOOK_EVERY_S:
                return
            workers = self.client.scheduler_info()["workers"]
            self._here = {address: str(facts["name"]) for address, facts in workers.items()}
            for address in [known for known in self._here if known not in self.accepted]:
                if address not in self.refused:
                    self.ask(address)
            self._looked_at = time.monotonic()

    def ask(self, address: str) -> None:
        """Accept a worker that would make the same runs as this machine, and refuse any other."""
        if not is_private(address):
            self.refuse(address, "it is reached neither on this machine nor through TLS")
            return
        gost = self.gost and str(self.gost)
        try:
            answer = self.client.run(self.identify, gost, workers=[address])[address]
            identity = Identity(**answer)
        except Exception as error:
            # Any error of another machine is reported as its own and does not stop this one.
            self.refuse(address, f"it cannot say what it is: {error}")
            return
        differences = self.mine.differences(identity)
        if differences:
            self.refuse(address, "; ".join(differences))
        else:
            self.accepted[address] = identity

    def refuse(self, address: str, why: str) -> None:
        """Exclude a worker from runs, and report the reason once."""
        self.refused[address] = why
        self.accepted.pop(address, None)
        self.say(f"worker {self.name_of(address)} is refused: {why}")

    def name_of(self, address: str) -> str:
        """Return a worker's name for people."""
        name = self._here.get(address, address)
        at = self.accepted[address].host if address in self.accepted else address
        return name if name == at else f"{name} ({at})"

    def is_to_blame(self, address: str, why: str) -> bool:
        """Return whether a run may be the cause of its own failed start on a worker.

        It may if the worker has made other runs. A worker that has made none is refused.
        """
        if address in self.proven:
            return True
        self.refuse(address, why)
        return False

    def is_here(self, address: str) -> bool:
        self.look()
        return address in self._here

    def start(self, run: RunSpec, folder: Path, address: str) -> FutureJob:
        """Start a run on a worker; its folder is on this machine."""
        return FutureJob(self, run, folder, address)


class SharedWorkers:
    """Let experiments in several threads use a cluster's workers, one run on each at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._taken: set[str] = set()
        self._mutex = threading.Lock()

    @contextmanager
    def gather(self, _say: Callable[[str], None]) -> Iterator[tuple[TakenWorkers, Starter]]:
        """Yield workers for one experiment, taken as it needs them and given back at its end."""
        workers = TakenWorkers(self)
        try:
            yield workers, self.cluster.start
        finally:
            with self._mutex:
                self._taken -= workers.addresses

    def take(self, address: str) -> bool:
        """Take a worker, unless another experiment has it."""
        with self._mutex:
            is_free = address not in self._taken
            self._taken.add(address)
            return is_free


class TakenWorkers:
    """The workers of one experiment, as slots: iterating takes those that nobody else has."""

    def __init__(self, shared: SharedWorkers) -> None:
        self._shared = shared
        self.addresses: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        """Yield the workers that it has, then free ones. Raises MachineError, as Cluster does."""
        there = list(self._shared.cluster)
        yield from [address for address in there if address in self.addresses]
        for address in there:
            if address not in self.addresses and self._shared.take(address):
                self.addresses.add(address)
                yield address

    def __len__(self) -> int:
        return len(self._shared.cluster)

    def __contains__(self, address: object) -> bool:
        return address in self.addresses


class FutureJob:
    complaint: str | None = None
    from_outside = False
    status: Mapping[str, Any] | None = None

    def __init__(self, cluster: Cluster, run: RunSpec, folder: Path, address: str) -> None:
        self._cluster, self._folder, self._address = cluster, folder, address
        self._future = cluster.client.submit(
            run_while_wanted,
            cluster.make,
            run.to_json(),
            str(folder),
            cluster.gost and str(cluster.gost),
            cluster.name_of(address),
            key=f"{run.name}-{uuid.uuid4()}",
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )

    def poll(self) -> int | None:
        """Return 0 once the run's folder is complete here, or None while the run is made.

        Raises Lost if the worker disappeared or could not start the run.
        """
        if not self._future.done():
            if self._cluster.is_here(self._address):
                return None
            self._future.release()
            raise WorkerLost(f"worker {self._cluster.name_of(self._address)} went away")
        name = self._cluster.name_of(self._address)
        try:
            # Without a time limit Dask would wait forever for a worker that just died.
            answer = self._future.result(timeout=FETCH_S)
        except Exception as error:
            # Dask raises its own errors and those of the task.
            raise WorkerLost(f"worker {name} gave no answer ({error})") from error
        finally:
            # Release the future now, so that it is not computed again if its worker dies.
            self._future.release()
        if answer["complaint"]:
            counts = self._cluster.is_to_blame(self._address, answer["complaint"])
            raise WorkerLost(
                f"worker {name} made no run of it: {answer['complaint']}", counts=counts
            )
        try:
            self._take(answer["files"])
        except (ValueError, OSError) as failure:
            raise WorkerLost(f"what worker {name} sent is no run's folder: {failure}") from failure
        self._cluster.proven.add(self._address)
        return 0

    def _take(self, files: Mapping[str, bytes] | None) -> None:
        """Write the run's files into its folder. Raises ValueError, OSError."""
        if files is not None:
            remote.save_files(files, self._folder)
        else:  # The worker shares this file system and has written the files.
            made_folder = self._folder / RUN_FOLDER
            for path in made_folder.iterdir():
                path.replace(self._folder / path.name)
            shutil.rmtree(made_folder)
        self.status = read_status(self._folder)
        if self.status is None:
            raise ValueError("it has no status")

    def kill(self) -> None:
        """Tell the worker that nobody waits for the run."""
        self._future.cancel(force=True)
        self._future.release()


def run_while_wanted(make: Callable[..., Any], *arguments: Any) -> Any:
    """Call `make` on the worker, with a function that tells whether its result is still wanted."""
    from distributed import get_worker

    me = get_worker()
    key = me.get_current_task()

    def wanted() -> bool:
        task = me.state.tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    return make(*arguments, wanted)


# -- connect to a cluster


def join_cluster(
    where: str | None,
    plans: Sequence[api.Plan],
    gost: Path | None,
    jobs: int | None,
    *,
    check_hosts: bool,
) -> api.Gathered | None:
    """Return the cluster for --dask and --check-hosts, or None for this machine.

    Raises BadInput for contradictory options.
    """
    if where is None:
        if check_hosts:
            raise BadInput("--check-hosts: of which hosts? (with --dask SCHEDULER)")
        return None
    if jobs is not None:
        raise BadInput("--jobs: with --dask, a run per worker is made at a time")
    if any(plan.machine.name == "native" for plan in plans):
        raise BadInput("--dask needs the sandbox: --machine sandbox")
    runs = [run for plan in plans for run in plan.runs]
    return partial(gather_workers, where, runs, gost, check_hosts)


@contextmanager
def gather_workers(
    where: str, runs: Sequence[RunSpec], gost: Path | None, check: bool, say: Callable[[str], None]
) -> Iterator[tuple[Cluster, Starter]]:
    """Yield a cluster's workers and a function that starts a run on one.

    With `check` two workers first make the same run. Raises the exceptions of connected() and
    check_hosts().
    """
    mine = Identity(**remote.identify(gost))
    with connect(where, mine, gost, say) as workers:
        if check and runs:
            with TemporaryDirectory(prefix="gostlab-hosts-") as scratch:
                say(check_hosts(workers, runs[0], Path(scratch)))
        yield workers, workers.start


@contextmanager
def connect(
    where: str, mine: Identity, gost: Path | None, say: Callable[[str], None]
) -> Iterator[Cluster]:
    """Start N workers on this machine (`local:4`), or connect to a scheduler.

    A scheduler's address is like `tcp://127.0.0.1:8786` or `tls://host:8786`. Raises BadInput for
    an invalid address, MachineError if no scheduler answers or no worker is suitable.
    """
    count = local_workers(where)
    try:
        import distributed
        from distributed.security import Security
    except ImportError as error:
        raise MachineError(PACKAGE) from error
    # Messages about a dead worker's connections would disturb the progress.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with local_cluster(distributed, count) if count else nullcontext(where) as address:
        security = credentials(Security(), where) if where.startswith("tls:") else None
        try:
            client = distributed.Client(
                address, timeout=CONNECT_S, set_as_default=False, security=security
            )
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            hint = f" ({ONE_AUTHORITY})" if security else ""
            raise MachineError(f"--dask {where}: no scheduler there: {error}{hint}") from error
        with client:
            cluster = Cluster(client, mine, gost, say)
            wait_for_workers(cluster, where, count or 1)
            yield cluster


def credentials(security: Any, where: str) -> Any:
    """Return Dask's own certificates (distributed.comm.tls). Raises MachineError."""
    try:
        context = security.get_connection_args("client").get("ssl_context")
    except OSError as error:
        # The message of ssl names no file.
        named = ", ".join(filter(None, security.get_tls_config_for_role("client").values()))
        raise MachineError(
            f"--dask {where}: the certificates of distributed.comm.tls cannot be read ({named}):"
            f" {error.strerror or error}"
        ) from error
    if context is None:
        raise MachineError(
            f"--dask {where}: Dask's configuration, distributed.comm.tls, names no certificates for"
            " the client: docs/how-to/dask-cluster.md says how to make them"
        )
    return security


def wait_for_workers(cluster: Cluster, where: str, count: int) -> None:
    """Wait for suitable workers. Raises MachineError with the reasons if all are refused."""
    deadline = time.monotonic() + CONNECT_S
    while len(cluster) < count and time.monotonic() <= deadline:
        time.sleep(LOOK_EVERY_S / 2)
    if not len(cluster):
        raise MachineError(
            f"--dask {where}: no worker there will do ({cluster.reasons or 'none has come'}):"
            " docs/how-to/dask-cluster.md says how to start one"
        )


@contextmanager
def local_cluster(distributed: Any, count: int) -> Iterator[Any]:
    """Start workers on this machine, each with one process and one thread.

    They have no memory limit of Dask, because a guest's memory belongs to a child process. Dask's
    folder is removed afterwards.
    """
    with (
        TemporaryDirectory(prefix="gostlab-dask-") as scratch,
        # The scheduler has a folder of its own.
        import_module("dask").config.set({"temporary-directory": scratch}),
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


def local_workers(where: str) -> int | None:
    """Return 4 for `local:4`, or None for an allowed scheduler's address. Raises BadInput."""
    if where.startswith("local"):
        match = re.fullmatch(r"local:([1-9]\d{0,3})", where)
        if not match:
            raise BadInput(f"--dask {where}: how many workers? (like local:4)")
        return int(match[1])
    if not re.fullmatch(r"(tcp|tls)://(\[[0-9a-fA-F:]+\]|[^\s/:]+):\d{1,5}", where):
        raise BadInput(
            f"--dask {where}: not a scheduler's address (tls://host:8786, tcp://127.0.0.1:8786) nor"
            " local:N"
        )
    if not is_private(where):
        raise BadInput(
            f"--dask {where}: a scheduler executes what it is sent, and tcp:// asks nobody who he"
            " is: use tls://, or a tunnel to this machine (ssh -L 8786:127.0.0.1:8786 …)"
        )
    return None


def is_private(address: str) -> bool:
    """Return whether an address is on this machine's loopback or uses TLS."""
    try:
        at = urlsplit(address)
        if at.scheme == "tls" or at.hostname == "localhost":
            return True
        return ipaddress.ip_address(at.hostname or "").is_loopback
    except ValueError:
        return False


# -- compare hosts


def check_hosts(cluster: Cluster, run: RunSpec, scratch: Path) -> str:
    """Make a run on two workers, preferably on two hosts, and return a line that they agree.

    Raises MachineError naming both if their files differ, BadInput if there are no two workers.
    """
    pair = pick_two_workers(cluster)
    if run.clock != "virtual":
        raise BadInput("--check-hosts: runs on the real clock never agree bit for bit")
    folders = []
    for number, address in enumerate(pair):
        folders.append(scratch / str(number))
        folders[-1].mkdir()
        job = cluster.start(run, folders[-1], address)
        try:
            while job.poll() is None:
                time.sleep(remote.POLL_S)
        except WorkerLost as error:
            raise MachineError(f"--check-hosts: {error}") from error
        finally:
            job.kill()
    names = [f"{cluster.name_of(worker)}, {cluster.accepted[worker].cpu}" for worker in pair]
    differing = different_files(*folders)
    if differing:
        raise MachineError(
            f"--check-hosts: {run.cell}: {names[0]} and {names[1]} do not agree, in"
            f" {', '.join(differing)}: results of the two are not to be mixed"
        )
    return f"{names[0]} and {names[1]} agree bit for bit"


def pick_two_workers(cluster: Cluster) -> tuple[str, str]:
    """Return two workers, on two hosts if possible. Raises BadInput."""
    addresses = list(cluster)
    by_host = {cluster.accepted[address].host: address for address in reversed(addresses)}
    pair = list(by_host.values() if len(by_host) > 1 else addresses)[:2]
    if len(pair) < 2:
        raise BadInput("--check-hosts: there is one worker, and it takes two to agree")
    return pair[0], pair[1]


def different_files(one: Path, other: Path) -> Sequence[str]:
    """Return the files that differ between two runs of one seed; status.json if one failed."""
    outcomes = {(read_status(folder) or {}).get("outcome") for folder in (one, other)}
    differing = ["status.json"] if len(outcomes) > 1 else []
    return differing + [
        name for name in REPEATED if read_content(one / name) != read_content(other / name)
    ]


def read_content(path: Path) -> bytes | None:
    """Return a file's content, decompressed, as a gzip header has a time; None without a file."""
    try:
        data = safe_read.read_bytes(path)
        if path.suffix == ".gz":
            return zlib.decompressobj(wbits=31).decompress(data, remote.MAX_BYTES)
        return data
    except (OSError, zlib.error):
        return None
