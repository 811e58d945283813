# SPDX-License-Identifier: MIT
"""Serve the data of http and short flows by nginx."""

from collections.abc import Mapping

from gostlab.guest.flow_result import TrafficError
from gostlab.guest.load_context import LoadContext
from gostlab.spec.flow import FlowSpec

CONF = """daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen {port}; root {folder}; }}
}}
"""


def server_argv(
    context: LoadContext, flow: FlowSpec, port: int, documents: Mapping[str, int]
) -> list[str]:
    """Return nginx's command, with a configuration and temporary folders per flow.

    `documents` holds the size in bytes of each file to serve. Raises TrafficError.
    """
    if context.programs.nginx is None:
        raise TrafficError("nginx was not found: run ./lab setup")
    network, folder = context.network, context.scratch / f"nginx-{flow.name}"
    network.write_file(folder / "nginx.conf", CONF.format(folder=folder, port=port))
    for name, size in documents.items():
        network.read(flow.receiver, ["truncate", "-s", str(size), str(folder / name)])
    conf = str(folder / "nginx.conf")
    return [context.programs.nginx, "-p", str(folder), "-c", conf, "-e", "stderr"]
