"""Certificates made on the spot, and a server that speaks TLS with them."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Authority:
    """Whoever signs certificates."""

    certificate: Any
    key: Any


def _signed(name: str, issuer: Authority | None, days: float) -> Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "hospital")]
    )
    end = datetime.now(UTC) + timedelta(days=days)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=400))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(key if issuer is None else issuer.key, hashes.SHA256())
    )
    return Authority(made, key)


def authority() -> Authority:
    return _signed("authority", None, 300)


def write_kit(folder: Path, trusts: Authority, signed_by: Authority, name: str = "arden", days: float = 300) -> Path:
    """A kit's startup folder: a certificate of its own, and the authority by which it judges others."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    startup = folder / "startup"
    startup.mkdir(parents=True)
    own = _signed(name, signed_by, days)
    (startup / "client.crt").write_bytes(own.certificate.public_bytes(Encoding.PEM))
    pem = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (startup / "client.key").write_bytes(pem)
    (startup / "rootCA.pem").write_bytes(trusts.certificate.public_bytes(Encoding.PEM))
    return folder


@contextmanager
def serving(kit: Path) -> Iterator[int]:
    """A server with the certificate of a kit, which wants one of its authority from others; yields its port."""
    startup = kit / "startup"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(startup / "rootCA.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(startup / "client.crt", startup / "client.key")

    def speak() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:  # closed
                return
            with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as end:
                end.sendall(b"hello")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
