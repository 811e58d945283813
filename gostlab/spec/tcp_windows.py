# SPDX-License-Identifier: MIT
"""Compute the windows of a run's flows from socket buffers, kernel and packet sizes."""

from gostlab.registry.kernels import version_of
from gostlab.registry.tunnels import IP_TCP_BYTES, tunnel_kind
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel import socket_buffers


def flow_windows(run: RunSpec, flow: FlowSpec) -> socket_buffers.Windows:
    """Return the windows that a flow's buffers allow on the leg that crosses the path."""
    mss_bytes = tunnel_kind(run.tunnel).inner_mtu(run.mtu) - IP_TCP_BYTES
    version = version_of(run.kernel)
    return socket_buffers.socket_windows(
        flow.buffers, flow.streams, version, mss_bytes, run.offloads
    )
