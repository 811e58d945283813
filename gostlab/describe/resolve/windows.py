"""What the socket buffers of a run's flows allow, on its kernel and with its packets."""

from gostlab.declared.kernels import version_of
from gostlab.declared.tunnels import IP_TCP_BYTES, tunnel_kind
from gostlab.describe.physics import sizing
from gostlab.describe.resolve.flows import Flow
from gostlab.describe.resolve.run_description import RunDescription


def flow_windows(run: RunDescription, flow: Flow) -> sizing.Windows:
    """Return what a flow's buffers allow on the leg that crosses the path."""
    mss_bytes = tunnel_kind(run.tunnel).inner_mtu(run.mtu) - IP_TCP_BYTES
    version = version_of(run.kernel)
    return sizing.socket_windows(flow.buffers, flow.streams, version, mss_bytes, run.offloads)
