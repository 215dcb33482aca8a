"""How lists of prices are fetched: whole or as a stream, patient with servers, and never believing half a file."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from email.utils import parsedate_to_datetime
from typing import Protocol
from urllib.parse import urlsplit

from trainplan.pricing.sources.reading import SourceError, UnreachableError

MOST_BYTES = 64 << 20
"""Of a response that is read whole; lists above it are streamed."""
TRIES = 4
_TIMEOUT_SECONDS = 60
_CHUNK = 1 << 18
# Answers of a server that is busy, or away for a moment.
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_WAIT_SECONDS = 60.0


class Http(Protocol):
    """What a source needs of HTTP; both raise SourceError."""

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        """The whole response."""

    def get_dated(self, url: str) -> tuple[bytes, date | None]:
        """The whole response, and the day on which its file was last modified (None: the server does not say)."""

    def stream(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """The response in pieces, for what does not fit in memory. It ends with an error where it is cut off."""


class UrllibHttp:
    """HTTP by the standard library: proxies and certificates come from the environment, as everywhere.

    `wait` pauses before another try: seconds, longer each time, or as long as the server asks. `tries` is how often a
    request is sent at most.
    """

    def __init__(self, wait: Callable[[float], None], agent: str, tries: int = TRIES) -> None:
        self._wait = wait
        self._agent = agent
        self._tries = tries
        self._opener = urllib.request.build_opener(_SameSafety())
        self._last_modified: str | None = None

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        for tries in range(1, self._tries + 1):
            try:
                content = b"".join(self._pieces(url, headers, MOST_BYTES))
            except _AgainError as error:
                if tries == self._tries:
                    raise error.for_good() from None
                self._wait(min(error.wait_seconds or 2.0**tries, _LONGEST_WAIT_SECONDS))
            else:
                return content
        raise AssertionError("unreachable")

    def get_dated(self, url: str) -> tuple[bytes, date | None]:
        content = self.get(url)
        return content, _http_day(self._last_modified)

    def stream(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """Tried again only until its first piece has come: whoever reads has the rest already."""
        for tries in range(1, self._tries + 1):
            has_begun = False
            try:
                for piece in self._pieces(url, headers, None):
                    has_begun = True
                    yield piece
            except _AgainError as error:
                if has_begun or tries == self._tries:
                    raise error.for_good() from None
                self._wait(min(error.wait_seconds or 2.0**tries, _LONGEST_WAIT_SECONDS))
            else:
                return

    def _pieces(self, url: str, headers: Mapping[str, str] | None, most: int | None) -> Iterator[bytes]:
        """Raises _AgainError for what may pass, SourceError for the rest."""
        # Not compressed, so that Content-Length tells whether all of it came.
        request_body = {"User-Agent": self._agent, "Accept-Encoding": "identity", **(headers or {})}
        address = where(url)
        try:
            request = urllib.request.Request(url, headers=request_body)
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                self._last_modified = response.headers.get("Last-Modified")
                yield from _whole(response, address, most)
        # HTTPError is a URLError, and that an OSError: the handlers go from the special to the general.
        except urllib.error.HTTPError as error:
            error.close()
            raise _status_error(error, address) from None
        except ssl.SSLCertVerificationError as error:
            raise _certificate(address, error) from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise _certificate(address, error.reason) from None
            reason = error.reason.strerror if isinstance(error.reason, OSError) else None
            raise _AgainError(f"{address} cannot be reached: {reason or error.reason}", nobody=True) from None
        except (ValueError, http.client.InvalidURL) as error:
            raise SourceError(f"{address} is no address: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            raise _AgainError(f"{address}: the connection broke off: {str(error) or type(error).__name__}") from None


def _http_day(text: str | None) -> date | None:
    """The day of an HTTP date (RFC 9110, 5.6.7); None for anything else."""
    try:
        return parsedate_to_datetime(text).date() if text else None
    except ValueError:
        return None


def where(url: str) -> str:
    """The host and path of an address: what may be shown of it, without keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return repr(url[:60])
    return f"{parts.hostname or '?'}{parts.path}"


class _AgainError(Exception):
    """The request may succeed next time; `wait_seconds` is the wait that the server asks for. `nobody`: no server was
    reached.
    """

    def __init__(self, message: str, wait_seconds: float | None = None, *, nobody: bool = False) -> None:
        self.wait_seconds = wait_seconds
        self.nobody = nobody
        super().__init__(message)

    def for_good(self) -> SourceError:
        """What it is after the last try."""
        return (UnreachableError if self.nobody else SourceError)(str(self), "try again later")


class _SameSafety(urllib.request.HTTPRedirectHandler):
    """A redirect never leads from an encrypted address to a plain one."""

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> urllib.request.Request | None:  # fmt: skip
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise SourceError(f"{where(req.full_url)} leads to a plain address", "nothing is read from there")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]  # as handed in


def _whole(response: http.client.HTTPResponse, address: str, most: int | None) -> Iterator[bytes]:
    declared = response.headers.get("Content-Length", "")
    read = 0
    while piece := response.read(_CHUNK):
        read += len(piece)
        if most is not None and read > most:
            raise SourceError(f"{address}: more than {most >> 20} MiB came")
        yield piece
    if declared.isdecimal() and read < int(declared):
        raise _AgainError(f"{address}: cut off after {read:,} of {int(declared):,} bytes")


def _status_error(error: urllib.error.HTTPError, address: str) -> Exception:
    if error.code in _AGAIN:
        # It may be a date too (RFC 9110, 10.2.3): then our own pause counts.
        question = error.headers.get("Retry-After", "") if error.headers else ""
        return _AgainError(f"{address} answers {error.code}", float(question) if question.isdecimal() else None)
    hint = "look at the key or the account it was asked with" if error.code in (400, 401, 403) else ""
    return SourceError(f"{address} answers {error.code}", hint)


def _certificate(address: str, error: ssl.SSLError) -> SourceError:
    return SourceError(
        f"{address}: its certificate cannot be checked: {getattr(error, 'verify_message', error)}",
        "behind a proxy that opens connections, SSL_CERT_FILE names its certificate",
    )
