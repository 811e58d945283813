#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The lab's topologies, as Mininet Topo classes: pure description.

    sudo python topo.py             build the lab on this machine's kernel, run the quick matrix
    python topo.py --cli            Mininet's prompt in the lab (without root: in the sandbox)
    sudo mn --custom topo.py --topo tunnel --controller none     hosts and routers, unshaped

Links carry a role, never a rate: what a path does to packets is a profile's business and is
installed by gostlab.guest.shaping. A role is (bottleneck | delay, forward | reverse), a third word
where it is not on every flow's way: the host, or the hosts, whose flows cross it, and a fourth
where links have paths of their own: the link's name.

A topology is one class here, and nothing else knows it by name: what the lab must know of it are
its plain attributes (gostlab.registry.topologies says what each means), which are read without
running this file. `mn --custom` executes this file, so its top level imports nothing but Mininet.
"""

from functools import cache

try:
    from mininet.topo import Topo
except ImportError:

    class Topo:  # type: ignore[no-redef]
        """Take the place of Mininet's class where only the declarations are read."""


@cache
def host_class():
    """Return the class of a host; importing Mininet's nodes takes 0.2 s."""
    from mininet.node import Node

    class LabHost(Node):
        """A host with static routes: `routes` is a list of (destination, gateway)."""

        forwards = False

        def config(self, routes=(), **params):
            result = super().config(**params)
            for destination, gateway in routes:
                self.cmd(f"ip route add {destination} via {gateway}")
            return result

    return LabHost


@cache
def router_class():
    """Return the class of a router."""

    class Router(host_class()):  # type: ignore[misc]
        """A host that forwards IPv4 between its links."""

        forwards = True

        def config(self, routes=(), **params):
            result = super().config(routes=routes, **params)
            self.cmd("sysctl -qw net.ipv4.ip_forward=1")
            return result

    return Router


def add_router(topo, name, **params):
    """Add a router with Mininet's parameters of a host."""
    topo.addHost(name, cls=router_class(), **params)


def add_end(topo, name, net, own=1):
    """Add a host at an end of a network NET.0/24, whose router is at the other: 1 or 2."""
    topo.addHost(name, cls=host_class(), ip=f"{net}.{own}/24", defaultRoute=f"via {net}.{3 - own}")


def join(topo, one, two, net, role=(), role_back=()):
    """Add a link between NET.1 and NET.2, with a role for each direction that has one."""
    ends = ((f"{net}.1/24", role), (f"{net}.2/24", role_back))
    params1, params2 = (
        {"ip": ip, **({"role": link_role} if link_role else {})} for ip, link_role in ends
    )
    topo.addLink(one, two, params1=params1, params2=params2)


class TunnelTopo(Topo):
    """client – wan_a – wan_b – gost – target

    wan_a and wan_b are routers, and the path between the client's side and the target's is shaped
    on them and nowhere else. In each direction the first router's way out is the bottleneck (rate,
    buffer) and the second's the delay line (delay, jitter, loss), so that packets in flight never
    count against the buffer and no end host's queue feels the shaping. gost is the far end of the
    tunnel (placement gateway) or only forwards (placement endpoint: the tunnel ends on the target,
    as the thesis's do).

        client ── wan_a ═════ wan_b ── gost ── target
                    └ bottleneck ┘└ delay line (forward)

    With two hops a second such path follows, and gost is the middle of a chain of tunnels:

        client ── wan_a ═════ wan_b ── gost ── wan_c ═════ wan_d ── gost2 ── target
               └──────── hop1 ────────┘    └──────── hop2 ─────────┘
    """

    name = "tunnel"
    says = "one path between two routers (or two, one behind the other), and a host behind each"
    sender = "client"
    receiver = "target"
    size = ("hops",)
    most_hops = 2
    tunnel_near = "client"
    tunnel_endpoint = "target"
    tunnel_gateway = "gost"

    def build(self, hops=1, **_params):
        import itertools

        paths = [("wan_a", "wan_b", "gost"), ("wan_c", "wan_d", "gost2")][:hops]
        row = ["client", *(node for path in paths for node in path), "target"]
        nets = [1, 2, 3, *range(5, 3 * hops + 2), 4]  # 10.0.N.0/24 behind each node of the row
        for index, node in enumerate(row):
            if index in (0, len(row) - 1):
                add_end(self, node, f"10.0.{nets[index and -1]}", own=2 if index else 1)
                continue
            before, behind = nets[index - 1], nets[index]
            routes = [
                (f"10.0.{net}.0/24", f"10.0.{before}.1" if at < index else f"10.0.{behind}.2")
                for at, net in enumerate(nets)
                if net not in (before, behind)
            ]
            add_router(self, node, ip=f"10.0.{before}.2/24", routes=routes)
        for index, (one, two) in enumerate(itertools.pairwise(row)):
            path = ((), f"hop{index // 3 + 1}") if hops > 1 else ()
            roles = (
                {"role_back": ("delay", "reverse", *path)},
                {
                    "role": ("bottleneck", "forward", *path),
                    "role_back": ("bottleneck", "reverse", *path),
                },
                {"role": ("delay", "forward", *path)},
            )[index % 3]
            join(self, one, two, f"10.0.{nets[index]}", **(roles if two != "target" else {}))


class DumbbellTopo(Topo):
    """s1 … sn – left – right – r1 … rm

    Senders and receivers share one bottleneck, left to right for what senders send, right to left
    for what they get. Every receiver has its own delay line in front of it, and every sender one
    for what comes back: so each pair has its own RTT.

        s1 ──┐                                    ┌── r1   bottleneck: left ═> right, right ═> left
        s2 ──┤ left ═══════ bottleneck ═══ right ─┤           delay line (forward): right ─> rj
        sn ──┘                                    └── rm   delay line (reverse): left ─> si
    """

    name = "dumbbell"
    says = "n senders to m receivers over one bottleneck, each pair with a round trip of its own"
    sender = "s{}"
    receiver = "r{}"
    size = ("senders", "receivers")
    tunnel_near = "s{}"
    tunnel_endpoint = "r{}"
    own_rtts = True

    def build(self, senders=2, receivers=2, **_params):
        add_router(self, "left", ip="10.0.0.1/24", routes=[("10.2.0.0/16", "10.0.0.2")])
        add_router(self, "right", ip="10.0.0.2/24", routes=[("10.1.0.0/16", "10.0.0.1")])
        join(self, "left", "right", "10.0.0", ("bottleneck", "forward"), ("bottleneck", "reverse"))
        for side, router, letter, count, direction in (
            (1, "left", "s", senders, "reverse"),
            (2, "right", "r", receivers, "forward"),
        ):
            for number in range(1, count + 1):
                name, net = f"{letter}{number}", f"10.{side}.{number}"
                add_end(self, name, net)
                join(self, name, router, net, role_back=("delay", direction, name))


class RouterTopo(Topo):
    """client – host – router – server

    The course report's network: one router with netem on its one way out to the server, so that
    only what the client sends is delayed or lost. `host` is the machine that carried the report's
    virtual ones: its limit is the bottleneck, as it was theirs, and it stands before the router
    because netem's rate would put jittered packets back in order.

        client ── host ═════════ router ──────────── server
                   └ bottleneck ┘   └ delay line (forward: delay, jitter, loss)
    """

    name = "router"
    says = "one router that delays and loses on its one way out, and nothing on the way back"
    sender = "client"
    receiver = "server"
    shapes_return = False

    def build(self, **_params):
        add_end(self, "client", "192.168.1", own=2)
        add_router(self, "host", ip="192.168.1.1/24", routes=[("192.168.2.0/24", "192.168.3.2")])
        add_router(self, "router", ip="192.168.3.2/24", routes=[("192.168.1.0/24", "192.168.3.1")])
        add_end(self, "server", "192.168.2", own=2)
        self.addLink(
            "client", "host", params1={"ip": "192.168.1.2/24"}, params2={"ip": "192.168.1.1/24"}
        )
        roles = ("bottleneck", "forward"), ("bottleneck", "reverse")
        join(self, "host", "router", "192.168.3", *roles)
        join(self, "router", "server", "192.168.2", ("delay", "forward"))


class StarTopo(Topo):
    """client – hub, and for each site k: hub – near_k – far_k – site_k

    One vantage point and its sites, each on a path of its own that is shaped like TunnelTopo's:
    bottlenecks between near_k and far_k, delay lines behind them.

                       ┌─ near1 ═══════ far1 ── site1      bottleneck: near ═> far, far ═> near
        client ── hub ─┤                                delay line: far ─> site, near ─> hub
                       └─ near2 ═══════ far2 ── site2
    """

    name = "star"
    says = "one client and n sites, each on a path of its own"
    sender = "client"
    receiver = "site{}"
    size = ("sites",)
    path_per_site = True

    def build(self, sites=2, **_params):
        across = [(f"10.{k}.0.0/16", f"10.{k}.1.2") for k in range(1, sites + 1)]
        add_end(self, "client", "10.0.1")
        add_router(self, "hub", ip="10.0.1.2/24", routes=across)
        join(self, "client", "hub", "10.0.1")
        for k in range(1, sites + 1):
            near, far, site = f"near{k}", f"far{k}", f"site{k}"
            add_router(
                self,
                near,
                ip=f"10.{k}.1.2/24",
                routes=[(f"10.{k}.3.0/24", f"10.{k}.2.2")],
                defaultRoute=f"via 10.{k}.1.1",
            )
            add_router(self, far, ip=f"10.{k}.2.2/24", defaultRoute=f"via 10.{k}.2.1")
            add_end(self, site, f"10.{k}.3", own=2)
            join(self, "hub", near, f"10.{k}.1", role_back=("delay", "reverse", site))
            roles = ("bottleneck", "forward", site), ("bottleneck", "reverse", site)
            join(self, near, far, f"10.{k}.2", *roles)
            join(self, far, site, f"10.{k}.3", ("delay", "forward", site))


def build_nodes(topo, shape, nodes):
    """Build nodes n1 … nn with a sender and a receiver each, and links as the shape defines.

    A link is a wire: a router between two nodes whose outgoing interfaces are the delay lines, as
    the nodes' interfaces to it are the bottlenecks. Its roles name the flows that cross it: s1>r3
    by their data, s3<r1 by their ACKs.
    """
    import os
    import sys

    # `mn --custom` runs this file's text from anywhere, without __file__: the code knows its place.
    here = os.path.dirname(os.path.abspath(build_nodes.__code__.co_filename))
    if here not in sys.path:
        sys.path.append(here)
    from gostlab.registry import graph_topologies

    links, everyone = graph_topologies.links(shape, nodes), range(1, nodes + 1)

    def gateway(start, end):
        """Return the next hop from a node to another, or to that node's own hosts."""
        one, two = graph_topologies.shortest_path(shape, nodes, start, end)[0]
        number = links.index((one, two)) if (one, two) in links else links.index((two, one))
        return f"10.0.{2 * number}.2" if (one, two) in links else f"10.0.{2 * number + 1}.1"

    def crossing(one, two):
        """Return the flows whose packets go from one node to the next, data or ACKs."""
        flows = []
        for start in everyone:
            for end in everyone:
                steps = graph_topologies.shortest_path(shape, nodes, start, end)
                if (one, two) in steps:
                    flows.append(f"s{start}>r{end}")
                if (two, one) in steps:
                    flows.append(f"s{start}<r{end}")
        return tuple(flows)

    for node in everyone:
        others = [
            (f"10.{side}.{other}.0/24", gateway(node, other))
            for other in everyone
            if other != node
            for side in (1, 2)
        ]
        add_router(topo, f"n{node}", ip=f"10.1.{node}.2/24", routes=others)
        for side, letter in ((1, "s"), (2, "r")):
            net, host = f"10.{side}.{node}", f"{letter}{node}"
            add_end(topo, host, net)
            join(topo, host, f"n{node}", net)
    for number, (one, two) in enumerate(links):
        first, second, wire = f"10.0.{2 * number}", f"10.0.{2 * number + 1}", f"w{number + 1}"
        routes = []
        for node in everyone:
            ways = [
                graph_topologies.shortest_path(shape, nodes, start, node)[:1]
                for start in (one, two)
            ]
            for step, via in (((one, two), f"{second}.2"), ((two, one), f"{first}.1")):
                if [step] in ways:
                    routes += [(f"10.{side}.{node}.0/24", via) for side in (1, 2)]
        add_router(topo, wire, ip=f"{first}.2/24", routes=routes)
        link = f"n{one}-n{two}"
        there, back = (crossing(one, two), link), (crossing(two, one), link)
        roles = ("bottleneck", "forward", *there), ("delay", "reverse", *back)
        join(topo, f"n{one}", wire, first, *roles)
        roles = ("delay", "forward", *there), ("bottleneck", "reverse", *back)
        join(topo, wire, f"n{two}", second, *roles)


class ParkingLotTopo(Topo):
    """n1 – n2 – … – nn, a sender and a receiver at each

    One flow may cross all links, others one each: who crosses more of them gets less.

        s1 ── n1 ═══════ n2 ═══════ n3 ── r3       each ═ a wire like TunnelTopo's path
              r1       s2 r2       s3
    """

    name = "parking-lot"
    says = "n nodes in a row, a sender and a receiver at each"
    sender = "s{}"
    receiver = "r{}"
    size = ("nodes",)
    most_hosts = 16
    tunnel_near = "s{}"
    tunnel_endpoint = "r{}"
    shape = "chain"

    def build(self, nodes=3, **_params):
        build_nodes(self, self.shape, nodes)


class RingTopo(Topo):
    """n1 – n2 – … – nn – n1, a sender and a receiver at each; flows go the shorter way round."""

    name = "ring"
    says = "n nodes in a ring, a sender and a receiver at each; the shorter way round"
    sender = "s{}"
    receiver = "r{}"
    size = ("nodes",)
    most_hosts = 16
    tunnel_near = "s{}"
    tunnel_endpoint = "r{}"
    shape = "ring"

    def build(self, nodes=4, **_params):
        build_nodes(self, self.shape, nodes)


class MeshTopo(Topo):
    """Every node joined with every other, a sender and a receiver at each."""

    name = "mesh"
    says = "n nodes, each joined with every other, a sender and a receiver at each"
    sender = "s{}"
    receiver = "r{}"
    size = ("nodes",)
    most_hosts = 8
    tunnel_near = "s{}"
    tunnel_endpoint = "r{}"
    shape = "mesh"

    def build(self, nodes=3, **_params):
        build_nodes(self, self.shape, nodes)


topos = {
    candidate.name: candidate  # type: ignore[attr-defined]
    for candidate in list(globals().values())
    if isinstance(candidate, type) and issubclass(candidate, Topo) and candidate is not Topo
}


if __name__ == "__main__":
    import os
    import sys

    lab = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lab")
    os.execv(lab, [lab, "topo", *sys.argv[1:]])
