# SPDX-License-Identifier: MIT
"""Read a GOST configuration as the settings of a question: which tunnel it runs.

Read are GOST 3's YAML or JSON (services, chains, hops, nodes), GOST 2's JSON (ServeNodes,
ChainNodes, Routes), and command lines of both (`gost -L … -F …`). What decides is the transport of
each hop, as the client dials it; a second file may have the server's side, which must agree.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

from gostlab.registry.tunnels import TunnelKind, tunnel_kinds
from gostlab.spec.yaml_source import (
    MAX_BYTES,
    BadInput,
    Node,
    display_path,
    load_text,
    parse_document,
)

MAX_HOPS = 2
# Listeners on which a client takes connections of its applications.
LOCAL_LISTENERS = ("tcp", "udp", "redirect", "red", "redu", "rtcp", "rudp", "tun", "tap")
# Protocols of GOST: of a scheme with one word they are the connector, any other is the dialer.
CONNECTORS = "auto forward http http2 relay serial sni socks4 socks4a socks5 ss ssu tunnel".split()
# Connectors that pass a TCP stream on as it is after their first message, as relay does.
STREAM_CONNECTORS = ("forward", "http", "relay", "socks4", "socks4a", "socks5", "tunnel")
# GOST's names of one transport.
DIALER_ALIASES = {"http3": "h3", "ohttp": "obfs-http", "otls": "obfs-tls", "": "tcp"}
# Options of addresses, certificates, authentication and timeouts: without effect on a flow.
EFFECTLESS = re.compile(
    r"(ws\.|tls\.)?(path|host|header|userAgent|secure|serverName|certFile|keyFile|caFile|ca|cert|key"
    r"|alpn|backlog|handshakeTimeout|readHeaderTimeout|keepAlive\w*|keepalive\w*|timeout|ttl"
    r"|mux\.keep\w+|muxKeep\w+|user|auth|backend|log|crypt|snmp\w+|signal|knock|probeResist\w*"
    r"|readTimeout|retry|hash|fingerprint|host_key|sshd?Key|private_?[kK]ey\w*|passphrase)"
)
KCP_SETTINGS = {"mode": "kcp_mode", "datashard": "kcp_data", "parityshard": "kcp_parity"}
KCP_SETTINGS |= {"mtu": "kcp_mtu"}
KCP_MODES = ("normal", "fast", "fast2", "fast3")
KCP_DEFAULTS = {"smuxver": "1", "smuxbuf": "4194304"}
KCP_DEFAULTS |= {"sockbuf": "4194304", "streambuf": "2097152", "dscp": "0", "nocomp": "false"}
KCP_DEFAULTS |= {"acknodelay": "false", "nodelay": "0", "resend": "0", "nc": "0", "tcp": "false"}


@dataclass(frozen=True)
class GostOption:
    """One option of a listener, dialer, connector or service."""

    position: str  # FILE:LINE
    name: str
    value: str


@dataclass(frozen=True)
class GostHop:
    """One hop of a chain, as the client dials it."""

    position: str
    connector: str
    dialer: str
    address: str
    options: tuple[GostOption, ...] = ()


@dataclass(frozen=True)
class GostService:
    """One service: a client if its listener is local and it has hops, else a server."""

    position: str
    handler: str
    listener: str
    address: str
    target: str = ""
    hops: tuple[GostHop, ...] = ()
    options: tuple[GostOption, ...] = ()

    @property
    def is_local(self) -> bool:
        return self.listener in LOCAL_LISTENERS and self.handler != "relay"


@dataclass
class GostFiles:
    """All services of one or two files, and what the lab does not take from them."""

    services: list[GostService] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class GostTunnel:
    """The tunnel that a configuration runs, as settings of a run."""

    settings: Mapping[str, str]
    taken: tuple[str, ...]
    left_out: tuple[str, ...]


def read_gost_config(paths: str) -> GostTunnel:
    """Return the tunnel of one or two files, `CLIENT,SERVER`. Raises BadInput."""
    files = GostFiles()
    for path in [paths] if Path(paths).is_file() else paths.split(","):
        read_file(Path(path), files)
    return tunnel_of(files)


def read_file(path: Path, files: GostFiles) -> None:
    """Add a file's services. Raises BadInput."""
    text, label = load_text(path, MAX_BYTES), display_path(path)
    if re.search(r"^[^#\n{]*(?:^|\s)-[LF][\s=]", text, re.MULTILINE):
        read_command_lines(text, label, files)
        return
    root = parse_document(text, label)
    fields = root.fields or {}
    if {"ServeNodes", "ChainNodes", "Routes"} & set(fields):
        read_version_2(root, files)
    elif {"services", "chains"} & set(fields):
        read_version_3(root, path.parent, files)
    else:
        raise BadInput(
            f"{label}: no configuration of GOST's (services and chains, ServeNodes, or lines with"
            " -L and -F)"
        )


# -- command lines


def read_command_lines(text: str, label: str, files: GostFiles) -> None:
    """Add the services of every line with -L or -F. Raises BadInput."""
    line, first = "", 0
    for number, written in enumerate(text.splitlines(), 1):
        first = first if line else number
        line += written.removesuffix("\\") + " "
        if written.endswith("\\"):
            continue
        position = f"{label}:{first}"
        try:
            arguments = shlex.split(line, comments=True)
        except ValueError as error:
            raise BadInput(f"{position}: {error}") from None
        line = ""
        add_urls(
            list(option_values(arguments, "-L")),
            list(option_values(arguments, "-F")),
            position,
            files,
        )


def option_values(words: Sequence[str], option: str) -> Iterator[str]:
    """Yield the values of an option of GOST's: `-L VALUE` or `-L=VALUE`."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word == option:
            yield following
        elif word.startswith(f"{option}="):
            yield word.removeprefix(f"{option}=")


def add_urls(
    listen: Sequence[str], forward: Sequence[str], position: str, files: GostFiles
) -> None:
    """Add the services of addresses as -L and -F have them. Raises BadInput."""
    hops = []
    for url in forward:
        connector, dialer, address, _, options = read_url(url, position)
        hops.append(GostHop(position, connector or "http", dialer, address, options))
    for url in listen:
        handler, listener, address, target, options = read_url(url, position)
        if handler in ("tcp", "udp", "rtcp", "rudp"):
            handler, listener = "forward", handler
        if not handler and listener in LOCAL_LISTENERS:
            handler = "forward"
        service = GostService(
            position, handler or "auto", listener, address, target, tuple(hops), options
        )
        files.services.append(service)
    if forward and not listen:
        files.services.append(GostService(position, "forward", "tcp", "", "", tuple(hops)))


def read_url(text: str, position: str) -> tuple[str, str, str, str, tuple[GostOption, ...]]:
    """Return connector, dialer, address, target and options of an address. Raises BadInput."""
    if any(mark in text for mark in ("${", "$(", "`")) or re.search(r"\$[A-Za-z]", text):
        raise BadInput(f"{position}: {text!r:.60} has a variable: write its value")
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    rest, _, query = rest.partition("?")
    address, _, target = rest.rpartition("@")[2].partition("/")
    first, plus, second = scheme.lower().partition("+")
    if plus:
        connector, dialer = first, second
    elif first in CONNECTORS:
        connector, dialer = first, "tcp"
    else:
        connector, dialer = "", first
    options = tuple(GostOption(position, name, value) for name, value in parse_qsl(query, True))
    return connector, DIALER_ALIASES.get(dialer, dialer), address, target, options


# -- files


def read_version_2(root: Node, files: GostFiles) -> None:
    """Add the services of GOST 2's JSON. Raises BadInput."""
    fields = root.fields or {}
    routes = fields.get("Routes")
    for route in (root, *((routes.items or ()) if routes else ())):
        given = route.fields or {}
        listen, forward = (
            list(given[key].items or ()) if key in given else []
            for key in ("ServeNodes", "ChainNodes")
        )
        nodes = [*listen, *forward]
        if nodes:
            position = f"{nodes[0].origin}:{nodes[0].line}"
            add_urls(
                [item.text or "" for item in listen],
                [item.text or "" for item in forward],
                position,
                files,
            )


def read_version_3(root: Node, folder: Path, files: GostFiles) -> None:
    """Add the services of GOST 3's YAML or JSON. Raises BadInput."""
    named_hops = {text_in(hop, "name"): hop for hop in items_in(root, "hops")}
    chains = {
        text_in(chain, "name"): tuple(
            read_hop(
                named_hops.get(text_in(hop, "name"), hop) if not has_key(hop, "nodes") else hop,
                files,
            )
            for hop in items_in(chain, "hops")
        )
        for chain in items_in(root, "chains")
    }
    used = set()
    for service in items_in(root, "services"):
        handler, listener = field_in(service, "handler"), field_in(service, "listener")
        chain = text_in(handler, "chain") or text_in(listener, "chain")
        if chain and chain not in chains:
            raise (handler or service).bad(f"chain {chain!r:.40} is not among chains")
        used.add(chain)
        forwarder = field_in(service, "forwarder")
        nodes = items_in(forwarder, "nodes")
        for limit in ("limiter", "climiter", "rlimiter"):
            if has_key(service, limit):
                line = position_of(service.fields[limit])  # type: ignore[index]
                files.left_out.append(f"{line}: {limit}")
        files.services.append(
            GostService(
                position_of(service),
                text_in(handler, "type") or "auto",
                text_in(listener, "type") or "tcp",
                text_in(service, "addr"),
                text_in(nodes[0], "addr") if nodes else "",
                chains.get(chain, ()),
                (*options_in(listener), *options_in(handler)),
            )
        )
    for name, hops in chains.items():
        if name not in used and hops:  # a chain without a service: what a client would dial
            files.services.append(GostService(hops[0].position, "forward", "tcp", "", "", hops))


def read_hop(hop: Node, files: GostFiles) -> GostHop:
    """Return the first node of a hop. Raises BadInput."""
    nodes = items_in(hop, "nodes")
    if not nodes:
        raise hop.bad("a hop without nodes")
    node = nodes[0]
    for other in nodes[1:]:
        files.left_out.append(
            f"{position_of(other)}: node {text_in(other, 'name') or 'unnamed'},"
            " one of several of its hop"
        )
    connector, dialer = field_in(node, "connector"), field_in(node, "dialer")
    dialer_type = (text_in(dialer, "type") or "tcp").lower()
    return GostHop(
        position_of(dialer or node),
        (text_in(connector, "type") or "http").lower(),
        DIALER_ALIASES.get(dialer_type, dialer_type),
        text_in(node, "addr"),
        (*options_in(dialer), *options_in(connector)),
    )


def has_key(node: Node | None, key: str) -> bool:
    return node is not None and key in (node.fields or {})


def field_in(node: Node | None, key: str) -> Node | None:
    return (node.fields or {}).get(key) if node else None


def text_in(node: Node | None, key: str) -> str:
    child = field_in(node, key)
    return (child.text or "") if child else ""


def items_in(node: Node | None, key: str) -> tuple[Node, ...]:
    child = field_in(node, key)
    return (child.items or ()) if child else ()


def position_of(node: Node) -> str:
    return f"{node.origin}:{node.line}"


def options_in(node: Node | None) -> Iterator[GostOption]:
    """Yield the metadata of a listener, handler, dialer or connector, nested maps flattened."""
    for name, value in ((field_in(node, "metadata") or Node("", None, "")).fields or {}).items():
        if value.fields is not None:
            for inner, innermost in value.fields.items():
                yield GostOption(position_of(innermost), f"{name}.{inner}", innermost.text or "")
        else:
            yield GostOption(position_of(value), name, value.text or "")


# -- the tunnel


def tunnel_of(files: GostFiles) -> GostTunnel:
    """Return the tunnel of some services. Raises BadInput if the lab cannot run it."""
    clients = [one for one in files.services if one.hops and one.is_local]
    middles = [one for one in files.services if one.hops and not one.is_local]
    servers = [one for one in files.services if not one.hops and not one.is_local]
    by_tcp = [one for one in clients if one.listener not in ("udp", "redu", "rudp")]
    chosen = (by_tcp or clients or middles)[:1]
    others = [one for one in by_tcp if one.hops != chosen[0].hops]
    if others:
        raise BadInput(
            f"{others[0].position}: another chain than {chosen[0].position}'s: leave one of them"
        )
    if chosen:
        middles = [one for one in middles if one not in chosen]
        hops = (*chosen[0].hops, *(hop for one in middles for hop in one.hops))
    elif servers:
        one = servers[0]
        hops = (GostHop(one.position, one.handler, one.listener, one.address, one.options),)
    else:
        raise BadInput("--gost-config: no service with a chain, and none that a client dials")
    left_out = list(files.left_out)
    kinds = [kind_of_hop(hop, left_out) for hop in hops]
    if len(hops) > MAX_HOPS:
        raise BadInput(
            f"{hops[MAX_HOPS].position}: hop {len(hops)}: the lab has {MAX_HOPS} at most"
        )
    if len({declaration.name for declaration in kinds}) > 1:
        names = ", then ".join(declaration.name for declaration in kinds)
        raise BadInput(f"{hops[1].position}: {names}: the lab's chain has one transport")
    check_servers_match_clients(hops, [*servers, *middles])
    settings = {"tunnel": kinds[0].name}
    if len(hops) > 1:
        settings["hops"] = str(len(hops))
    options = [option for hop in hops for option in hop.options]
    options += [option for one in (*servers, *middles) for option in one.options]
    settings |= settings_of_options(options, kinds[0], left_out)
    taken = [f"{hop.position}: {hop.connector}+{hop.dialer}, {kinds[0].name}" for hop in hops]
    return GostTunnel(
        settings, (*taken, *target_elsewhere_lines(chosen)), tuple(dict.fromkeys(left_out))
    )


def kind_of_hop(hop: GostHop, left_out: list[str]) -> TunnelKind:
    """Return the lab's tunnel of a hop. Raises BadInput if there is none."""
    kinds = tunnel_kinds()
    if hop.connector == "ss" and hop.dialer == "tcp":
        left_out.append(f"{hop.position}: GOST's own Shadowsocks (shadowsocks-libev in its place)")
        return kinds["shadowsocks"]
    if hop.connector not in (*STREAM_CONNECTORS, "auto"):
        raise BadInput(f"{hop.position}: connector {hop.connector}: the lab has GOST's relay alone")
    name = f"gost+{hop.dialer}"
    if name not in kinds:
        known = ", ".join(sorted({one.name for one in kinds.values() if "gost+" in one.name}))
        raise BadInput(f"{hop.position}: dialer {hop.dialer}: the lab has no {name} ({known})")
    if hop.connector != "relay":
        left_out.append(f"{hop.position}: connector {hop.connector} (relay in its place)")
    return kinds[name]


def check_servers_match_clients(hops: Sequence[GostHop], servers: Sequence[GostService]) -> None:
    """Reject a server's side that does not speak what the client dials. Raises BadInput."""
    for hop in hops:
        port = hop.address.rpartition(":")[2]
        there = [one for one in servers if one.address.rpartition(":")[2] == port] or servers
        spoken = [DIALER_ALIASES.get(one.listener, one.listener) for one in there]
        if there and hop.dialer not in spoken:
            raise BadInput(
                f"{hop.position}: dials {hop.dialer}, but {there[0].position} listens for"
                f" {there[0].listener}"
            )


def settings_of_options(
    options: Sequence[GostOption], kind: TunnelKind, left_out: list[str]
) -> dict[str, str]:
    """Return the settings of a tunnel's options, and name those that the lab does not have."""
    settings: dict[str, str] = {}
    windows: list[int] = []
    for option in options:
        name = re.sub(r"^kcp\.(config\.)?|^config\.", "", option.name)
        if "kcp_mode" in kind.options and name in ("c", "configFile"):
            options_of_file = kcp_file_options(option, left_out)
            settings |= settings_of_options(options_of_file, kind, left_out)
        elif "kcp_mode" in kind.options and name in ("sndwnd", "rcvwnd") and option.value.isdigit():
            windows.append(int(option.value))
        elif "kcp_mode" in kind.options and name == "mode" and option.value not in KCP_MODES:
            left_out.append(f"{option.position}: kcp mode {option.value}")
        elif "kcp_mode" in kind.options and name in KCP_SETTINGS:
            settings[KCP_SETTINGS[name]] = option.value
        elif not EFFECTLESS.fullmatch(name) and KCP_DEFAULTS.get(name) != option.value.lower():
            left_out.append(f"{option.position}: {option.name}: {option.value!s:.80}")
    if settings.keys() & set(KCP_SETTINGS.values()) and not windows:
        left_out.append(
            f"{options[0].position}: KCP's window: without sndwnd GOST 3.2 begins with 32 packets,"
            " the lab with 1024 (--kcp_window 32)"
        )
    if windows:
        settings["kcp_window"] = str(min(windows))
        if len(set(windows)) > 1:
            left_out.append(
                f"{options[0].position}: windows of {windows}: the least in both directions"
            )
    return settings


def kcp_file_options(option: GostOption, left_out: list[str]) -> list[GostOption]:
    """Return the options of KCP's own JSON file, if it is there."""
    path = Path(option.value)
    try:
        values = json.loads(load_text(path, MAX_BYTES))
        return [
            GostOption(
                f"{option.value}",
                name,
                str(value).lower() if isinstance(value, bool) else str(value),
            )
            for name, value in values.items()
        ]
    except (BadInput, ValueError, AttributeError):
        left_out.append(f"{option.position}: {option.value}, which cannot be read here")
        return []


def target_elsewhere_lines(chosen: Sequence[GostService]) -> Iterator[str]:
    """Yield a line if the target may stand on another machine than the tunnel's last end."""
    for service in chosen:
        host = service.target.rpartition(":")[0].strip("[]")
        last = service.hops[-1].address.rpartition(":")[0].strip("[]")
        if host and host not in ("127.0.0.1", "localhost", "::1", last):
            yield (
                f"{service.position}: the target {host} is the tunnel's far end here (another"
                " machine behind it: --placement gateway)"
            )
