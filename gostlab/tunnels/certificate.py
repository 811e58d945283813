# SPDX-License-Identifier: MIT
"""Make the keys and certificates that a tunnel's ends authenticate each other by, per run.

Ed25519 signatures all have the same length, and the serial number is always 1: so the handshakes of
two runs have the same sizes.
"""

import base64
import hashlib
import re
from dataclasses import dataclass

from gostlab.guest.tunnel_context import TunnelLaunch

DAYS = 3650


@dataclass(frozen=True)
class Certificate:
    """The private key and the certificate of one end, both in PEM."""

    key: str
    certificate: str

    @property
    def fingerprint(self) -> str:
        """Return the certificate's SHA-256 in OpenVPN's notation (AA:BB:…)."""
        body = re.sub(r"-----.*?-----|\s", "", self.certificate)
        digest = hashlib.sha256(base64.b64decode(body)).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def make_certificate(launch: TunnelLaunch, node: str) -> Certificate:
    """Make a new key for a node and a self-signed certificate of it. Raises NetworkError."""
    args = ["-newkey", "ed25519", "-nodes", "-days", str(DAYS), "-set_serial", "1"]
    stdout_path = "/proc/self/fd/1"
    output = launch.read_output(
        node,
        *(launch.helper("openssl"), "req", "-x509", *args),
        *("-subj", f"/CN={node}", "-keyout", stdout_path, "-out", stdout_path),
    )
    pem_blocks = re.findall(r"(-----BEGIN ([A-Z ]+)-----.*?-----END \2-----)", output, re.DOTALL)
    pem_by_type = {name: f"{pem}\n" for pem, name in pem_blocks}
    return Certificate(pem_by_type["PRIVATE KEY"], pem_by_type["CERTIFICATE"])
