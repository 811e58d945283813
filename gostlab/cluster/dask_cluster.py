"""Runs on the workers of a Dask cluster: a slot is a worker, a job is a future.

Scheduler, progress, stopping rules and resuming are gostlab.scheduler.queue's as ever; this module
gives it slots and starts runs in them. A Dask scheduler executes what it is sent, so it is talked
to on this machine or through TLS only.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import shutil
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
from gostlab.cluster.worker import MADE, Identity
from gostlab.results import read_status
from gostlab.sandbox import MachineError
from gostlab.scheduler.queue import Starter, WorkerLost
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

PACKAGE = "--dask needs Dask.distributed: sudo apt install python3-distributed"
ONE_AUTHORITY = (
    "scheduler, workers and this machine need certificates of one authority:"
    " docs/how-to/dask-cluster.md"
)
CONNECT_S = 15.0
FETCH_S = 300.0  # of a run's files, over a slow link
LOOK_EVERY_S = 0.5
PATIENCE_S = 120.0  # without a worker: a nanny starts a new one in seconds, a queue in minutes
# What two runs of one seed must agree in, bit for bit (docs/explanation/repeatability.md).
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
    proven: set[str] = field(default_factory=set)  # the workers that have made a run
    _looked_at: float = float("-inf")
    _able_at: float | None = None  # when there last was a worker that will do
    _here: dict[str, str] = field(default_factory=dict)  # address -> name

    def __iter__(self) -> Iterator[str]:
        """The addresses of the workers that runs may be started on now. Raises MachineError if
        there has been none for too long, or all that are there are refused.
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
        self.look()
        return [address for address in self.accepted if address in self._here]

    @property
    def reasons(self) -> str:
        return "; ".join(dict.fromkeys(self.refused.values()))

    def __contains__(self, address: object) -> bool:
        return address in list(iter(self))

    def look(self) -> None:
        """Ask the scheduler for its workers, now and then; ask new ones who they are."""
        if time.monotonic() - self._looked_at < LOOK_EVERY_S:
            return
        workers = self.client.scheduler_info()["workers"]
        self._here = {address: str(facts["name"]) for address, facts in workers.items()}
        for address in [each for each in self._here if each not in self.accepted]:
            if address not in self.refused:
                self.ask(address)
        self._looked_at = time.monotonic()

    def ask(self, address: str) -> None:
        """Take a worker that would make the same runs as this machine, refuse any other."""
        if not is_private(address):
            self.refuse(address, "it is reached neither on this machine nor through TLS")
            return
        gost = self.gost and str(self.gost)
        try:
            answer = self.client.run(self.identify, gost, workers=[address])[address]
            identity = Identity(**answer)
        except Exception as error:
            # Whatever goes wrong on another machine is said of it, and is not this one's to mend.
            self.refuse(address, f"it cannot say what it is: {error}")
            return
        differences = self.mine.differences(identity)
        if differences:
            self.refuse(address, "; ".join(differences))
        else:
            self.accepted[address] = identity

    def refuse(self, address: str, why: str) -> None:
        """Start nothing on a worker, and say so once."""
        self.refused[address] = why
        self.accepted.pop(address, None)
        self.say(f"worker {self.name_of(address)} is refused: {why}")

    def name_of(self, address: str) -> str:
        """A worker by what people call it."""
        name = self._here.get(address, address)
        at = self.accepted[address].host if address in self.accepted else address
        return name if name == at else f"{name} ({at})"

    def is_to_blame(self, address: str, why: str) -> bool:
        """Whether a run that could not begin on a worker may be the cause: where the worker has
        made others. One that has made none is refused.
        """
        if address in self.proven:
            return True
        self.refuse(address, why)
        return False

    def is_here(self, address: str) -> bool:
        self.look()
        return address in self._here

    def start(self, run: RunSpec, folder: Path, address: str) -> FutureJob:
        """Start a run on a worker; its folder lies on this machine."""
        return FutureJob(self, run, folder, address)


class FutureJob:
    complaint: str | None = None
    from_outside = False
    status: Mapping[str, Any] | None = None

    def __init__(self, cluster: Cluster, run: RunSpec, folder: Path, address: str) -> None:
        self._cluster, self._folder, self._address = cluster, folder, address
        self._future = cluster.client.submit(
            wanted_run,
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
        """Return 0 once the run's folder is complete here, or None while it is being made.

        Raises WorkerLost if its worker went away or could not begin it.
        """
        if not self._future.done():
            if self._cluster.is_here(self._address):
                return None
            self._future.release()
            raise WorkerLost(f"worker {self._cluster.name_of(self._address)} went away")
        name = self._cluster.name_of(self._address)
        try:
            # Of a worker that dies just now Dask would wait for ever for what it alone may make.
            answer = self._future.result(timeout=FETCH_S)
        except Exception as error:
            # Dask passes on whatever there is, its own errors and a task's.
            raise WorkerLost(f"worker {name} gave no answer ({error})") from error
        finally:
            # At once: what is here must not be made again when a worker dies that still held it.
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
        """The run's files into its folder. Raises ValueError, OSError."""
        if files is not None:
            remote.keep(files, self._folder)
        else:  # made here, by a worker that sees this file system
            made = self._folder / MADE
            for path in made.iterdir():
                path.replace(self._folder / path.name)
            shutil.rmtree(made)
        self.status = read_status(self._folder)
        if self.status is None:
            raise ValueError("it has no status")

    def kill(self) -> None:
        """Tell the worker that nobody waits."""
        self._future.cancel(force=True)
        self._future.release()


def wanted_run(make: Callable[..., Any], *arguments: Any) -> Any:
    """On the worker: `make`, told whether the scheduler still wants its answer."""
    from distributed import get_worker

    me = get_worker()
    key = me.get_current_task()

    def wanted() -> bool:
        task = me.state.tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    return make(*arguments, wanted)


# -- how one gets there


def joined(
    where: str | None,
    plans: Sequence[api.Plan],
    gost: Path | None,
    jobs: int | None,
    *,
    check_hosts: bool,
) -> api.Gathered | None:
    """What makes the runs of plans, as --dask and --check-hosts ask for it; None: this machine.
    Raises BadInput for what makes no sense together.
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
    return partial(gathered, where, runs, gost, check_hosts)


@contextmanager
def gathered(
    where: str, runs: Sequence[RunSpec], gost: Path | None, check: bool, say: Callable[[str], None]
) -> Iterator[tuple[Cluster, Starter]]:
    """The workers of a cluster, and how a run is started on one; first, if that is to be checked,
    two of them have made the same run. Raises what connected() and check_hosts() do.
    """
    mine = Identity(**remote.identify(gost))
    with connected(where, mine, gost, say) as workers:
        if check and runs:
            with TemporaryDirectory(prefix="gostlab-hosts-") as scratch:
                say(check_hosts(workers, runs[0], Path(scratch)))
        yield workers, workers.start


@contextmanager
def connected(
    where: str, mine: Identity, gost: Path | None, say: Callable[[str], None]
) -> Iterator[Cluster]:
    """A cluster of N workers on this machine (`local:4`), or the one of a scheduler
    (`tcp://127.0.0.1:8786`, `tls://host:8786`).

    Raises BadInput for an address that is no such, MachineError if nobody answers there or no
    worker will do.
    """
    count = local_workers(where)
    try:
        import distributed
        from distributed.security import Security
    except ImportError as error:
        raise MachineError(PACKAGE) from error
    # A dead worker's connections are no news for the progress.
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
    """Dask's own certificates (distributed.comm.tls), if one can connect. Raises MachineError."""
    try:
        context = security.get_connection_args("client").get("ssl_context")
    except OSError as error:
        # ssl's own message names no file
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
    """Until there are workers that will do. Raises MachineError with what is wrong with all."""
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
    """Workers of this machine, one process and one thread each, without Dask's limit of memory: a
    guest's is its child's. Dask's own folder goes with them.
    """
    with (
        TemporaryDirectory(prefix="gostlab-dask-") as scratch,
        import_module("dask").config.set({"temporary-directory": scratch}),  # the scheduler's own
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
    """4 of `local:4`; None of a scheduler's address that may be talked to. Raises BadInput."""
    if where.startswith("local"):
        found = re.fullmatch(r"local:([1-9]\d{0,3})", where)
        if not found:
            raise BadInput(f"--dask {where}: how many workers? (like local:4)")
        return int(found[1])
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
    """Whether an address is on this machine's loopback or behind TLS."""
    try:
        at = urlsplit(address)
        if at.scheme == "tls" or at.hostname == "localhost":
            return True
        return ipaddress.ip_address(at.hostname or "").is_loopback
    except ValueError:
        return False


# -- do two hosts agree?


def check_hosts(cluster: Cluster, run: RunSpec, scratch: Path) -> str:
    """Make a run on two workers, on two hosts if there are two; a line that says that they agree
    bit for bit. Raises MachineError naming both if they do not, BadInput if there are no two.
    """
    pair = two_of(cluster)
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
    names = [f"{cluster.name_of(each)}, {cluster.accepted[each].cpu}" for each in pair]
    differing = different_files(*folders)
    if differing:
        raise MachineError(
            f"--check-hosts: {run.cell}: {names[0]} and {names[1]} do not agree, in"
            f" {', '.join(differing)}: results of the two are not to be mixed"
        )
    return f"{names[0]} and {names[1]} agree bit for bit"


def two_of(cluster: Cluster) -> tuple[str, str]:
    """Two workers, on two hosts if there are two. Raises BadInput."""
    addresses = list(cluster)
    by_host = {cluster.accepted[each].host: each for each in reversed(addresses)}
    pair = list(by_host.values() if len(by_host) > 1 else addresses)[:2]
    if len(pair) < 2:
        raise BadInput("--check-hosts: there is one worker, and it takes two to agree")
    return pair[0], pair[1]


def different_files(one: Path, other: Path) -> Sequence[str]:
    """The files that two runs of one seed must agree in and do not; status.json if one failed."""
    outcomes = {(read_status(folder) or {}).get("outcome") for folder in (one, other)}
    found = ["status.json"] if len(outcomes) > 1 else []
    return found + [name for name in REPEATED if content(one / name) != content(other / name)]


def content(path: Path) -> bytes | None:
    """What a file says; None where there is none. (gzip's own header has a time in it.)"""
    try:
        data = safe_read.read_bytes(path)
        if path.suffix == ".gz":
            return zlib.decompressobj(wbits=31).decompress(data, remote.MAX_BYTES)
        return data
    except (OSError, zlib.error):
        return None
