"""A certificate authority that nobody knows but the test: for an HTTPS server on loopback."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LASTS = timedelta(days=2)


def make_authority(folder: Path) -> tuple[Path, Path]:
    """(certificates of the authority, key and certificate of a server at 127.0.0.1 and localhost), as PEM files."""
    now = datetime.now(UTC)  # noqa: TID251  TLS lives in real time
    ours, theirs = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = _builder("trainplan tests", "trainplan tests", ours.public_key(), now)
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    root = root.add_extension(_usage(), critical=True)
    root = root.add_extension(x509.SubjectKeyIdentifier.from_public_key(ours.public_key()), critical=False)
    leaf = _builder("127.0.0.1", "trainplan tests", theirs.public_key(), now)
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
    leaf = leaf.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ours.public_key()), critical=False)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    pem = serialization.Encoding.PEM
    authority, server = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(root.sign(ours, hashes.SHA256()).public_bytes(pem))
    key = theirs.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    server.write_bytes(key + leaf.sign(ours, hashes.SHA256()).public_bytes(pem))
    return authority, server


def _builder(subject: str, issuer: str, key: Any, now: datetime) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(_name(issuer)).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _LASTS).not_valid_after(now + _LASTS)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
