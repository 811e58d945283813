# SPDX-License-Identifier: MIT
"""A configuration of GOST's names the lab's tunnel and its settings, or the line that has none."""

from pathlib import Path

import pytest

from gostlab.errors import BadInput
from gostlab.spec.gost_config import GostTunnel, read_gost_config

CLIENT = """\
services:
- name: service-0
  addr: :9001
  handler: {type: tcp, chain: chain-0}
  listener: {type: tcp}
  forwarder: {nodes: [{name: target-0, addr: "192.0.2.20:5201"}]}
chains:
- name: chain-0
  hops:
  - name: hop-0
    nodes:
    - {name: node-0, addr: "relay.example:443", connector: {type: relay}, dialer: {type: DIALER}}
"""
SERVER = """\
services:
- addr: :443
  handler: {type: relay}
  listener: {type: LISTENER, metadata: {path: /x, mux.maxStreamBuffer: 65536}}
"""


def tunnel_of(folder: Path, *texts: str) -> GostTunnel:
    files = [folder / f"gost{number}.yml" for number, _ in enumerate(texts)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return read_gost_config(",".join(map(str, files)))


def refusal(folder: Path, *texts: str) -> str:
    with pytest.raises(BadInput) as caught:
        tunnel_of(folder, *texts)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dialer", ["tls", "ws", "wss", "mws", "quic", "h2", "grpc", "ssh"])
def test_the_clients_dialer_is_the_tunnel(tmp_path: Path, dialer: str) -> None:
    found = tunnel_of(tmp_path, CLIENT.replace("DIALER", dialer))
    assert found.settings == {"tunnel": f"gost+{dialer}"}
    assert "192.0.2.20" in found.taken[1]


def test_a_server_must_listen_for_what_the_client_dials(tmp_path: Path) -> None:
    client, server = CLIENT.replace("DIALER", "mws"), SERVER.replace("LISTENER", "mws")
    found = tunnel_of(tmp_path, client, server)
    assert [line.rpartition("gost1.yml")[2] for line in found.left_out] == [
        ":4: mux.maxStreamBuffer: 65536"
    ]
    assert tunnel_of(tmp_path, server).settings == {"tunnel": "gost+mws"}
    message = refusal(tmp_path, client, SERVER.replace("LISTENER", "ws"))
    assert "gost0.yml:12: dials mws" in message
    assert "gost1.yml:2 listens for ws" in message


URL = "gost -L tcp://:9001/127.0.0.1:5201 -F"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (f"{URL} relay+ws://h:443", {"tunnel": "gost+ws"}),
        (f"{URL}=relay+wss://user:pw@h:443?path=/x", {"tunnel": "gost+wss"}),
        (f"{URL} relay://h:443", {"tunnel": "gost+tcp"}),
        (f"{URL} wss://h:443", {"tunnel": "gost+wss"}),
        (f"{URL} ss://a:b@h:443", {"tunnel": "shadowsocks"}),
        (f"{URL} relay+mws://h:443 -F relay+mws://i:1", {"tunnel": "gost+mws", "hops": "2"}),
        (
            f"{URL} relay+mws://h:443\ngost -L relay+mws://:443 -F relay+mws://i:1",
            {"tunnel": "gost+mws", "hops": "2"},
        ),
        ("gost -L relay+tls://:443/127.0.0.1:80", {"tunnel": "gost+tls"}),
        (
            '{"ServeNodes": [":8080"], "ChainNodes": ["socks5+quic://h:443"]}',
            {"tunnel": "gost+quic"},
        ),
        (
            '{"Routes": [{"ServeNodes": ["tcp://:1"], "ChainNodes": ["relay+kcp://h:1"]}]}',
            {"tunnel": "gost+kcp"},
        ),
        (
            f"{URL} 'relay+kcp://h:1?kcp.mode=fast3&kcp.sndwnd=512&kcp.rcvwnd=256&kcp.datashard=5"
            "&kcp.parityshard=0&kcp.mtu=1200'",
            {
                "tunnel": "gost+kcp",
                "kcp_mode": "fast3",
                "kcp_window": "256",
                "kcp_data": "5",
                "kcp_parity": "0",
                "kcp_mtu": "1200",
            },
        ),
    ],
)
def test_command_lines_and_json_of_both_versions(
    tmp_path: Path, text: str, settings: dict[str, str]
) -> None:
    assert (
        tunnel_of(tmp_path, f"# GOST\n{text}\n" if "{" not in text else text).settings == settings
    )


def test_kcps_options_in_yaml_and_in_its_own_file(tmp_path: Path) -> None:
    own = tmp_path / "kcp.json"
    own.write_text('{"mode": "fast2", "sndwnd": 2048, "rcvwnd": 2048, "smuxver": 2}')
    dialer = f"kcp, metadata: {{kcp.configFile: {own}, kcp.config: {{parityshard: 1}}}}"
    found = tunnel_of(tmp_path, CLIENT.replace("DIALER", dialer))
    assert dict(found.settings) == {
        "tunnel": "gost+kcp",
        "kcp_mode": "fast2",
        "kcp_window": "2048",
        "kcp_parity": "1",
    }
    assert any(line.endswith("smuxver: 2") for line in found.left_out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CLIENT.replace("DIALER", "dtls"), "gost0.yml:12: dialer dtls: the lab has no gost+dtls"),
        (CLIENT.replace("type: relay", "type: sni"), "connector sni"),
        (CLIENT.replace("chain: chain-0", "chain: other"), "chain 'other' is not among chains"),
        ("a: 1\n", "no configuration of GOST's"),
        (f"{URL} relay+ws://a:1 -F relay+wss://b:2\n", "gost+ws, then gost+wss"),
        (f"{URL} ws://a:1 -F ws://b:2 -F ws://c:3\n", "the lab has 2 at most"),
        (f"{URL} relay+ws://$HOST:1\n", "has a variable"),
        (f"{URL} ws://a:1\n{URL} wss://a:1\n", "another chain than"),
        ("gost -L socks5://:1080\n", ""),
    ],
)
def test_what_the_lab_cannot_run_is_refused_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    assert words in refusal(tmp_path, text)
