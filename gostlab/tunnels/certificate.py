"""What a tunnel's ends know each other by: keys and certificates made for one run, gone with it.

Ed25519, whose signatures are all of one length, and serial number 1: the handshakes of two runs
then have the same sizes.
"""

import base64
import hashlib
import re
from dataclasses import dataclass

from gostlab.guest.tunnel_context import Launch

DAYS = 3650


@dataclass(frozen=True)
class Certificate:
    """One end's: PEM."""

    key: str
    certificate: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as OpenVPN writes it: AA:BB:…"""
        body = re.sub(r"-----.*?-----|\s", "", self.certificate)
        digest = hashlib.sha256(base64.b64decode(body)).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def make_certificate(launch: Launch, node: str) -> Certificate:
    """A new key of a node's, and the certificate that it signs for itself. Raises NetworkError."""
    words = ["-newkey", "ed25519", "-nodes", "-days", str(DAYS), "-set_serial", "1"]
    here = "/proc/self/fd/1"
    said = launch.ask(
        node,
        *(launch.helper("openssl"), "req", "-x509", *words),
        *("-subj", f"/CN={node}", "-keyout", here, "-out", here),
    )
    pieces = re.findall(r"(-----BEGIN ([A-Z ]+)-----.*?-----END \2-----)", said, re.DOTALL)
    found = {name: f"{pem}\n" for pem, name in pieces}
    return Certificate(found["PRIVATE KEY"], found["CERTIFICATE"])
