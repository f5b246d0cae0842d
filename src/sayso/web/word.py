"""Words that only our own pages have: what a form carries to show where it comes from.

A word is made of a secret that the browser bears in a cookie, and of what it is for; it is another
one each time, so that a page that is packed does not give it away.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

_WORD = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9a-f]{64})", re.ASCII)


def make_word(secret: str, purpose: str) -> str:
    """Make a word for one purpose."""
    salt = secrets.token_urlsafe(12)
    return f"{salt}.{sign(secret, f'{purpose}.{salt}')}"


def is_word(secret: str, purpose: str, word: str) -> bool:
    """Tell whether a word was made of this secret, for this purpose."""
    read = _WORD.fullmatch(word)
    return read is not None and hmac.compare_digest(read[2], sign(secret, f"{purpose}.{read[1]}"))


def sign(secret: str, text: str) -> str:
    """Sign a text with the secret of a browser."""
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
