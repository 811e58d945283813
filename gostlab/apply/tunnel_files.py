# SPDX-License-Identifier: MIT
"""Write the files and commands of a run's tunnel for real machines: GOST's and WireGuard's."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from gostlab.registry.tunnels import (
    GOST,
    KCP_DEFAULTS,
    KCP_NAMES,
    TunnelKind,
    kcp_values,
    tunnel_kind,
)
from gostlab.spec.run_spec import RunSpec

SERVER, MIDDLE, TARGET = "SERVER", "MIDDLE", "TARGET"  # the reader writes addresses there
LOCAL_PORT, TUNNEL_PORT, IPERF3_PORT = 9001, 8443, 5201
WIREGUARD_PORT = 51820
NEAR_ADDRESS, FAR_ADDRESS, VPN_NETWORK = "10.9.0.1", "10.9.0.2", "10.9.0.0/30"


KcpValues = Mapping[str, object]


@dataclass(frozen=True)
class TunnelFiles:
    """The lines that set a tunnel up, and where an application connects to."""

    lines: tuple[str, ...]
    address: str
    port: int


def tunnel_files(run: RunSpec) -> TunnelFiles:
    """Return the configuration of a run's tunnel."""
    declaration = tunnel_kind(run.tunnel)
    if declaration.is_direct:
        return TunnelFiles((), TARGET, IPERF3_PORT)
    if declaration.program == GOST and declaration.name.startswith("gost+"):
        return TunnelFiles(tuple(gost_lines(run, declaration)), "127.0.0.1", LOCAL_PORT)
    if declaration.name == "wireguard":
        return TunnelFiles(tuple(wireguard_lines(run, declaration)), FAR_ADDRESS, IPERF3_PORT)
    return TunnelFiles(
        (
            f"# {declaration.name} ({declaration.says}): commands.sh in the run's folder has its"
            " commands.",
        ),
        TARGET,
        IPERF3_PORT,
    )


# -- GOST


def gost_lines(run: RunSpec, kind: TunnelKind) -> Iterator[str]:
    """Yield GOST's configuration for every machine of a tunnel: version 3's YAML, a line for 2.

    In a chain the middle has the target, as its requests name it to the far end.
    """
    transport = kind.name.removeprefix("gost+")
    kcp = kcp_values(run.tunnel_options)
    query = ""
    if kcp:
        query = "?c=kcp.json&" + "&".join(f"kcp.{key}={kcp[key]}" for key in KCP_DEFAULTS)
        yield f"# every machine: kcp.json, for the command lines: {json.dumps(kcp)}"
    target = f"{TARGET if run.placement == 'gateway' else '127.0.0.1'}:{IPERF3_PORT}"
    servers = [MIDDLE, SERVER][-run.hops :]
    for number, machine in enumerate(servers):
        forward = servers[number + 1 :]
        fixed = target if number == 0 else ""
        yield f"# {machine}: gost.yml, and `gost -C gost.yml` (GOST 3)"
        yield from gost_yaml(transport, kcp, machine, forward, fixed).splitlines()
        listen = f"relay+{transport}://:{TUNNEL_PORT}{f'/{fixed}' if fixed else ''}{query}"
        argv = [f"-L '{listen}'"]
        argv += [f"-F 'relay+{transport}://{next_}:{TUNNEL_PORT}{query}'" for next_ in forward]
        yield f"# GOST 2, or 3 without a file: gost {' '.join(argv)}"
    first = servers[0]
    yield "# CLIENT: gost.yml, and `gost -C gost.yml`"
    yield from gost_yaml(transport, kcp, "", [first], "").splitlines()
    yield (
        f"# GOST 2, or 3 without a file: gost -L tcp://:{LOCAL_PORT}"
        f" -F 'relay+{transport}://{first}:{TUNNEL_PORT}{query}'"
    )
    for name, value in run.tunnel_options.items():
        if name not in KCP_NAMES:
            yield f"# {name}: {value} has no option of GOST's"


def gost_yaml(transport: str, kcp: KcpValues, machine: str, forward: list[str], target: str) -> str:
    """Return GOST 3's configuration of one machine; `machine` is "" for the client."""
    # GOST 3.2 replaces some values of kcp.config by those of single options, which must be there.
    single = {f"kcp.{key}": kcp[key] for key in KCP_DEFAULTS if kcp}
    metadata: dict[str, object] = {"metadata": {"kcp.config": kcp, **single}} if kcp else {}
    service: dict[str, object] = {
        "name": "lab",
        "addr": f":{TUNNEL_PORT if machine else LOCAL_PORT}",
        "handler": {"type": "relay" if machine else "tcp", **({"chain": "lab"} if forward else {})},
        "listener": {"type": transport, **metadata} if machine else {"type": "tcp"},
    }
    if target:
        service["forwarder"] = {"nodes": [{"name": "target", "addr": target}]}
    document: dict[str, object] = {"services": [service]}
    if forward:
        node = {
            "name": forward[0],
            "addr": f"{forward[0]}:{TUNNEL_PORT}",
            "connector": {"type": "relay"},
            "dialer": {"type": transport, **metadata},
        }
        document["chains"] = [{"name": "lab", "hops": [{"name": "hop-0", "nodes": [node]}]}]
    return yaml.safe_dump(document, sort_keys=False, width=100)


# -- WireGuard


def wireguard_lines(run: RunSpec, kind: TunnelKind) -> Iterator[str]:
    """Yield wg-quick's configuration of both ends."""
    mtu = kind.inner_mtu(run.mtu)
    ends = (("CLIENT", NEAR_ADDRESS, SERVER), (SERVER, FAR_ADDRESS, ""))
    yield "# keys, on each machine: wg genkey | tee private.key | wg pubkey"
    for machine, address, peer in ends:
        other = SERVER if machine == "CLIENT" else "CLIENT"
        yield f"# {machine}: /etc/wireguard/lab.conf, and `wg-quick up lab`"
        yield "[Interface]"
        yield f"Address = {address}/30"
        yield f"PrivateKey = {machine}_PRIVATE_KEY"
        yield f"ListenPort = {WIREGUARD_PORT}"
        yield f"MTU = {mtu}"
        yield "[Peer]"
        yield f"PublicKey = {other}_PUBLIC_KEY"
        yield f"AllowedIPs = {VPN_NETWORK}"
        if peer:
            yield f"Endpoint = {peer}:{WIREGUARD_PORT}"
    queue = run.tunnel_options.get("tun_queue")
    if queue:
        yield f"# both: tc qdisc replace dev lab root {queue}"
