"""A certificate authority for one yard, and the certificate that its registries show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make(folder: Path, hosts: Sequence[str]) -> tuple[Path, Path]:
    """(the authority's certificate, a file with the key and certificate for these hosts and for loopback)."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    loopback = x509.IPAddress(IPv4Address("127.0.0.1"))
    authority_name = _name("The yard's authority")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    shown = (
        _builder(authority_name, _name(hosts[0]), key.public_key())
        .add_extension(x509.SubjectAlternativeName([*(x509.DNSName(host) for host in hosts), loopback]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    (authority_file := folder / "authority.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (shown_file := folder / "registries.pem").write_bytes(private + shown.public_bytes(serialization.Encoding.PEM))
    return authority_file, shown_file


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)  # noqa: TID251  a machine of the yard has the real time
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
    )
