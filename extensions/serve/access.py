"""Who may see the page: the one browser that came with the token, on this computer, under the page's own address."""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import Message

HOST = "127.0.0.1"
"""The one name of the server. A page elsewhere whose name was made to lead here (DNS rebinding) sends its own."""


class Access:
    """The secrets of one `plan serve`: a token that is exchanged once for a cookie, and what a form proves itself by.

    All three are 256 random bits, in no file and on no command line.
    """

    def __init__(self, port: int) -> None:
        self.origin = f"http://{HOST}:{port}"
        self._host = f"{HOST}:{port}"
        # Cookies are shared by all ports of a host: another plan serve must not take this one's away.
        self._cookie_name = f"trainplan-{port}"
        self._token: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self.form_token = secrets.token_urlsafe(32)

    @property
    def address(self) -> str:
        """What a person opens, once."""
        return f"{self.origin}/enter?token={self._token}"

    def is_addressed(self, headers: Message) -> bool:
        """Whether the request names this server as the page does, and comes from the page or from no page at all."""
        hosts, origins = headers.get_all("Host", []), headers.get_all("Origin", [])
        return hosts == [self._host] and origins in ([], [self.origin])

    def is_from_the_page(self, headers: Message) -> bool:
        """Whether it says that the page itself has sent it: what changes something has to."""
        return headers.get_all("Origin", []) == [self.origin]

    def enter(self, token: str) -> str | None:
        """The cookie in exchange for the token, which is of no use from then on; None for anything else."""
        if self._token is None or not _same(token, self._token):
            return None
        self._token = None
        return f"{self._cookie_name}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def has_session(self, headers: Message) -> bool:
        """Whether the request has the cookie."""
        for text in headers.get_all("Cookie", []):
            try:
                morsel = SimpleCookie(text).get(self._cookie_name)
            except CookieError:
                continue
            if morsel is not None and _same(morsel.value, self._session):
                return True
        return False

    def is_form(self, token: str) -> bool:
        """Whether a form holds what the page put into it."""
        return _same(token, self.form_token)


def _same(one: str, other: str) -> bool:
    """In a time that does not tell how many letters are right."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
