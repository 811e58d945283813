#!/usr/bin/env python3
"""The lab's topologies, as Mininet Topo classes: pure description.

    sudo python topo.py                  build the lab on this machine's kernel and run the quick matrix
    python topo.py --cli                 open Mininet's prompt in the lab (without root: inside the sandbox)
    sudo mn --custom topo.py --topo tunnel --controller none      only the hosts and routers, unshaped

Links carry a role, never a rate: what a path does to packets is a profile's business and is installed by
gostlab.shaping. `mn --custom` executes this file, so its top level imports nothing but Mininet.
"""

try:
    from mininet.node import Node
    from mininet.topo import Topo
except ImportError:  # `python` may be one that Debian's Mininet is not installed for
    import os
    import sys

    if __name__ == '__main__' and os.path.exists('/usr/bin/python3') \
            and os.path.realpath(sys.executable) != os.path.realpath('/usr/bin/python3'):
        os.execv('/usr/bin/python3', ['/usr/bin/python3', os.path.abspath(__file__), *sys.argv[1:]])
    sys.exit('topo.py: Mininet is not installed: run ./lab setup (or apt-get install mininet)')


class LabHost(Node):
    """A host with static routes: `routes` is a list of (destination, gateway)."""

    def config(self, routes=(), **params):
        result = super().config(**params)
        for destination, gateway in routes:
            self.cmd(f'ip route add {destination} via {gateway}')
        return result


class Router(LabHost):
    """A host that forwards IPv4 between its links."""

    def config(self, routes=(), **params):
        result = super().config(routes=routes, **params)
        self.cmd('sysctl -qw net.ipv4.ip_forward=1')
        return result


class TunnelTopo(Topo):
    """client – wan_a – wan_b – gost – target

    wan_a and wan_b are routers, and the path between the client's side and the target's is shaped on them
    and nowhere else. In each direction the first router's way out is the bottleneck (rate, buffer) and the
    second's the delay line (delay, jitter, loss), so that packets in flight never count against the
    buffer and no end host's queue feels the shaping. gost is the far end of the tunnel (placement
    gateway) or only forwards (placement endpoint: the tunnel ends on the target, as the thesis's do).

        client ── wan_a ═════ wan_b ── gost ── target
                    └ bottleneck ┘└ delay line (forward)
    """

    def build(self, **_params):
        self.addHost('client', cls=LabHost, ip='10.0.1.1/24', defaultRoute='via 10.0.1.2')
        self.addHost('wan_a', cls=Router, ip='10.0.1.2/24',
                     routes=[('10.0.3.0/24', '10.0.2.2'), ('10.0.4.0/24', '10.0.2.2')])
        self.addHost('wan_b', cls=Router, ip='10.0.2.2/24',
                     routes=[('10.0.1.0/24', '10.0.2.1'), ('10.0.4.0/24', '10.0.3.2')])
        self.addHost('gost', cls=Router, ip='10.0.3.2/24',
                     routes=[('10.0.1.0/24', '10.0.3.1'), ('10.0.2.0/24', '10.0.3.1')])
        self.addHost('target', cls=LabHost, ip='10.0.4.2/24', defaultRoute='via 10.0.4.1')
        self.addLink('client', 'wan_a', params1={'ip': '10.0.1.1/24'},
                     params2={'ip': '10.0.1.2/24', 'role': ('delay', 'reverse')})
        self.addLink('wan_a', 'wan_b', params1={'ip': '10.0.2.1/24', 'role': ('bottleneck', 'forward')},
                     params2={'ip': '10.0.2.2/24', 'role': ('bottleneck', 'reverse')})
        self.addLink('wan_b', 'gost', params1={'ip': '10.0.3.1/24', 'role': ('delay', 'forward')},
                     params2={'ip': '10.0.3.2/24'})
        self.addLink('gost', 'target', params1={'ip': '10.0.4.1/24'}, params2={'ip': '10.0.4.2/24'})


topos = {'tunnel': TunnelTopo}


if __name__ == '__main__':
    import sys

    from gostlab.cli import main_topo
    sys.exit(main_topo(sys.argv[1:]))
