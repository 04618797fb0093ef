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
    """A certificate with its key. `is_complete`: with all that RFC 5280 requires, unlike many self-made certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    is_complete: bool = False

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def authority(name: str, *, is_complete: bool = False) -> Certified:
    """Return a self-signed authority. `is_complete`: it and its certificates have key identifiers and a key usage."""
    return _made(name, None, x509.BasicConstraints(ca=True, path_length=None), days=30, is_complete=is_complete)


def certificate(signer: Certified, host: str, days: int = 30) -> Certified:
    """Return a certificate for a host; already expired if `days` is negative."""
    names = x509.SubjectAlternativeName([x509.DNSName(host)])
    return _made(host, signer, names, days=days, is_complete=signer.is_complete)


def _made(
    name: str, signer: Certified | None, extension: x509.ExtensionType, *, days: int, is_complete: bool
) -> Certified:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(extension, critical=signer is None)
    )
    signing_key = signer.key if signer else key
    if is_complete:
        of_signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(of_signer, critical=False)
        signs = signer is None
        usage = x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)
        builder = builder.add_extension(usage, critical=True)
    return Certified(builder.sign(signing_key, hashes.SHA256()), key, is_complete)
