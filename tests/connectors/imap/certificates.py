"""Certificates for a test server, signed by a private authority."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certified:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def authority(name: str) -> Certified:
    """Return a self-signed authority."""
    return _made(name, None, x509.BasicConstraints(ca=True, path_length=None), days=30)


def certificate(signer: Certified, host: str, days: int = 30) -> Certified:
    """Return a certificate for a host; already expired if `days` is negative."""
    return _made(host, signer, x509.SubjectAlternativeName([x509.DNSName(host)]), days=days)


# Without the key identifiers that RFC 5280 requires, like many self-made certificates.
def _made(name: str, signer: Certified | None, extension: x509.ExtensionType, *, days: int) -> Certified:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(extension, critical=signer is None)
        .sign(signer.key if signer else key, hashes.SHA256())
    )
    return Certified(made, key)
