"""The hidden inputs: drawn from a secret, for each submission and each item anew.

Everything random about hidden items comes from HMAC-SHA-256 of the secret, the submission and the
item. Whoever knows the inputs of one submission, or of one attempt, knows nothing about those of
another: its name and content are part of the hash. What a submission can see of randomness, the
seeds set in the sandbox, comes from hashes of their own.
"""

import hashlib
import hmac
import secrets

MIN_CHARACTERS = 22
"""As many letters and digits as hold 128 bits."""


def check_secret(secret: str | None) -> str:
    """Return a secret that somebody chose; "" if it is "0", which means no hidden inputs.

    If nobody chose one, it is drawn, of 256 bits.

    Raises:
        ValueError: It could be guessed.
    """
    if secret is None:
        return secrets.token_hex(32)
    if secret == "0":
        return ""
    if len(secret) < MIN_CHARACTERS:
        raise ValueError(
            f"--exam-seed {secret}: a secret of {len(secret)} characters can be guessed, use at"
            f" least {MIN_CHARACTERS} random ones (0: no hidden inputs)"
        )
    return secret


def name_of_secret(secret: str) -> str:
    """A name that tells one secret from another and gives none away; "" for none."""
    return _hash(secret.encode(), "name")[:8].hex() if secret else ""


def key_for(secret: str, submission: str, content: str) -> str:
    """The key, in hexadecimal, that the hidden inputs of one submission are drawn from.

    Args:
        secret: The secret of all; "" means that there are no hidden inputs.
        submission: Its name.
        content: The SHA-256 of what it holds.
    """
    return _hash(secret.encode(), "submission", submission, content).hex() if secret else ""


def seed_of_inputs(key: str, item: str) -> int:
    """The seed of an item's inputs, 256 bits."""
    return int.from_bytes(_hash(bytes.fromhex(key), "inputs", item), "big")


def seed_in_sandbox(key: str, item: str) -> int:
    """The seed that a submission's own randomness starts from in an item, 31 bits."""
    return int.from_bytes(_hash(bytes.fromhex(key), "sandbox", item)[:4], "big") >> 1


def _hash(key: bytes, *parts: str) -> bytes:
    # Each part by its own hash: no two lists of parts can run together into the same bytes.
    message = b"".join(hashlib.sha256(part.encode()).digest() for part in parts)
    return hmac.digest(key, message, "sha256")
