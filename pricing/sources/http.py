"""How lists of prices are fetched: whole, patient with servers, within limits, and never believing half a file."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Protocol
from urllib.parse import urlsplit

from trainplan.pricing.sources.reading import SourceError, UnreachableError

MOST_BYTES = 64 << 20
"""Of one response, unpacked."""
MOST_REFRESH_BYTES, MOST_REFRESH_SECONDS = 30_000_000, 60.0
"""Of all responses of one refresh together, as they come over the line (benchmarks/refresh.py has what it takes)."""
TRIES = 4
_NAME_TRIES = 2
"""How often a host's name is looked up at most: without a network every look-up takes seconds and fails alike."""
_ADDRESS_HINT = "an address as https://HOST/PATH is expected; docs/prices.md names the variables that set it"
_TIMEOUT_SECONDS = 20.0
_CHUNK = 1 << 18
# Answers of a server that is busy, or away for a moment.
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_WAIT_SECONDS = 60.0


class Http(Protocol):
    """What a source needs of HTTP; both raise SourceError. Both may be called from several threads at once."""

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        """The whole response, unpacked."""

    def get_dated(self, url: str) -> tuple[bytes, date | None]:
        """The whole response, and the day on which its file was last modified (None: the server does not say)."""


class Limits:
    """What all requests of a refresh together may take: bytes over the line, and seconds from now on."""

    def __init__(
        self,
        most_bytes: int = MOST_REFRESH_BYTES,
        most_seconds: float = MOST_REFRESH_SECONDS,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_bytes, self._most_seconds = most_bytes, most_seconds
        self._seconds = seconds
        self._end = seconds() + most_seconds
        self._lock = threading.Lock()
        self.received = 0
        """Bytes so far."""

    def take(self, count: int = 0) -> None:
        """Count received bytes. Raises UnreachableError where a limit is reached: no further request is sent."""
        with self._lock:
            self.received += count
            over = self.received > self._most_bytes
        if over:
            raise UnreachableError(f"the limit of {self._most_bytes / 1e6:.0f} MB for one refresh is reached")
        if self.left_seconds() <= 0:
            raise UnreachableError(f"the limit of {self._most_seconds:.0f} s for one refresh is reached")

    def left_seconds(self) -> float:
        """The seconds that are left."""
        return self._end - self._seconds()


class UrllibHttp:
    """HTTP by the standard library: proxies and certificates come from the environment, as everywhere.

    `wait` pauses before another try: seconds, longer each time, or as long as the server asks. `tries` is how often a
    request is sent at most. `limits` hold for all requests together.
    """

    def __init__(
        self, wait: Callable[[float], None], agent: str, tries: int = TRIES, limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self._wait = wait
        # Google packs its responses only for clients whose name has this word.
        self._agent = f"{agent} (gzip)"
        self._tries = tries
        self._opener = urllib.request.build_opener(_SameSafety())
        self._unknown_hosts = set[str | None]()
        """Those whose name was not resolved after `_NAME_TRIES`: no further request asks for them."""

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        return self._whole(url, headers)[0]

    def get_dated(self, url: str) -> tuple[bytes, date | None]:
        content, modified = self._whole(url, None)
        return content, _http_day(modified)

    def _whole(self, url: str, headers: Mapping[str, str] | None) -> tuple[bytes, str | None]:
        for tries in range(1, self._tries + 1):
            try:
                return self._once(url, headers)
            except _AgainError as error:
                seconds = min(error.wait_seconds or 2.0**tries, _LONGEST_WAIT_SECONDS)
                if error.without_name and tries >= _NAME_TRIES:
                    self._unknown_hosts.add(_host(url))
                    raise error.for_good() from None
                if tries == self._tries or seconds > self.limits.left_seconds():
                    raise error.for_good() from None
                self._wait(seconds)
        raise AssertionError("unreachable")

    def _once(self, url: str, headers: Mapping[str, str] | None) -> tuple[bytes, str | None]:
        """The content and its Last-Modified. Raises _AgainError for what may pass, SourceError for the rest."""
        request_headers = {"User-Agent": self._agent, "Accept-Encoding": "gzip", **(headers or {})}
        address = where(url)
        if _host(url) in self._unknown_hosts:
            raise _unknown_host(url).for_good()
        self.limits.take()
        try:
            request = urllib.request.Request(url, headers=request_headers)
            timeout = max(0.1, min(_TIMEOUT_SECONDS, self.limits.left_seconds()))
            with self._opener.open(request, timeout=timeout) as response:
                pieces = _pieces(response, address, self.limits)
                return _unpacked(pieces, address), response.headers.get("Last-Modified")
        # HTTPError is a URLError, and that an OSError: the handlers go from the special to the general.
        except urllib.error.HTTPError as error:
            error.close()
            raise _status_error(error, address) from None
        except ssl.SSLCertVerificationError as error:
            raise _certificate(address, error) from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise _certificate(address, error.reason) from None
            if isinstance(error.reason, socket.gaierror):
                raise _unknown_host(url) from None
            reason = error.reason.strerror if isinstance(error.reason, OSError) else None
            raise _AgainError(f"{address} cannot be reached: {reason or error.reason}", nobody=True) from None
        except (ValueError, http.client.InvalidURL) as error:
            # Neither the error's own text nor the whole address: both have the query, and a key may be in it.
            raise SourceError(f"{address} is no address of a list ({type(error).__name__})", _ADDRESS_HINT) from None
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


def _host(url: str) -> str | None:
    """The host of an address; None where it has none."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _unknown_host(url: str) -> _AgainError:
    """One text for all requests of a host, so that they are reported together."""
    message = f"the name {_host(url)} cannot be resolved: is this computer online?"
    return _AgainError(message, nobody=True, without_name=True)


class _AgainError(Exception):
    """The request may succeed next time; `wait_seconds` is the wait that the server asks for. `nobody`: no server was
    reached; `without_name`: since its name was not resolved.
    """

    def __init__(
        self, message: str, wait_seconds: float | None = None, *, nobody: bool = False, without_name: bool = False
    ) -> None:
        self.wait_seconds = wait_seconds
        self.nobody = nobody
        self.without_name = without_name
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


def _pieces(response: http.client.HTTPResponse, address: str, limits: Limits) -> Iterator[bytes]:
    """The response as it comes. Raises _AgainError where it is cut off, and what `limits` raise."""
    declared = response.headers.get("Content-Length", "")
    read = 0
    # `read1` returns what has come: a server that drips is noticed.
    while piece := response.read1(_CHUNK):
        read += len(piece)
        limits.take(len(piece))
        yield piece
    if declared.isdecimal() and read < int(declared):
        raise _AgainError(f"{address}: cut off after {read:,} of {int(declared):,} bytes")


def _unpacked(pieces: Iterator[bytes], address: str) -> bytes:
    """The content, unpacked where it begins as gzip does: AWS's lists are packed without a header that says so.

    Raises _AgainError where the packed content is cut off, SourceError where it is damaged or too much.
    """
    first = next(pieces, b"")
    packed = first[:2] == b"\x1f\x8b"
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    content, left = bytearray(), MOST_BYTES + 1
    for piece in chain((first,), pieces):
        try:
            content += unpacker.decompress(piece, left) if packed else piece
        except zlib.error:
            raise SourceError(f"{address}: what came cannot be unpacked", "try again later") from None
        left = MOST_BYTES + 1 - len(content)
        if left <= 0:
            raise SourceError(f"{address}: more than {MOST_BYTES >> 20} MiB came")
    if packed and not unpacker.eof:
        raise _AgainError(f"{address}: cut off: the packed content has no end")
    if unpacker.unused_data:
        raise SourceError(f"{address}: what came cannot be unpacked", "try again later")
    return bytes(content)


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
