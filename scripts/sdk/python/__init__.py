"""A client of Taskwright: `taskwright.api` has a module for each operation, `taskwright.models` the classes of the data."""

import asyncio
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

import httpx

from ._keyed import KEYED
from .client import AuthenticatedClient, Client
from .models.problem import Problem
from .types import UNSET, Unset

__all__ = ["AuthenticatedClient", "Client", "TaskwrightError", "connect", "each"]

T_co = TypeVar("T_co", covariant=True)

# Statuses that say that nothing was done, and those that leave open whether the request was processed.
_REFUSED = frozenset({408, 423, 429, 503})
_UNKNOWN = frozenset({500, 502, 504})

# Seconds. A program that has to wait longer should know.
_LONGEST_PAUSE = 60


class TaskwrightError(Exception):
    """The service, or a proxy in front of it, refused or failed a request."""

    def __init__(self, response: httpx.Response) -> None:
        is_problem = response.headers.get("Content-Type", "").startswith("application/problem+json")
        self.response = response
        # None if the response is from a proxy.
        self.problem = Problem.from_dict(response.json()) if is_problem and response.content else None
        reason = f"{self.problem.code}: {self.problem.detail}" if self.problem else response.reason_phrase
        super().__init__(f"{response.status_code} {reason}")


class Page(Protocol[T_co]):
    @property
    def items(self) -> Sequence[T_co]: ...
    @property
    def next_cursor(self) -> str | None: ...


def connect(base_url: str, token: str = "", *, retries: int = 4, timeout: float = 60) -> AuthenticatedClient:
    """A client for all operations. `token` is an API token or access token; without one, only some operations are allowed."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    client = AuthenticatedClient(base_url=base_url, token=token)
    client.set_httpx_client(_Http(retries, base_url=base_url, headers=headers, timeout=timeout))
    client.set_async_httpx_client(_AsyncHttp(retries, base_url=base_url, headers=headers, timeout=timeout))
    return client


def each(page: Callable[[str | Unset], Page[T_co]]) -> Iterator[T_co]:
    """All items of a list: calls `page` with the cursor of each page, first with none."""
    current = page(UNSET)
    yield from current.items
    while current.next_cursor is not None:
        current = page(current.next_cursor)
        yield from current.items


class _Http(httpx.Client):
    def __init__(self, retries: int, **options: Any) -> None:
        super().__init__(**options)
        self._retries = retries

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        _add_key(request, self.base_url)
        for attempt in count():
            response = None
            try:
                response = super().send(request, **options)
                if response.is_error:
                    response.read()
                    raise TaskwrightError(response)
                return response
            except (httpx.TransportError, TaskwrightError):
                pause = _pause(request, response, attempt)
                if attempt == self._retries or pause is None:
                    raise
            time.sleep(pause)
        raise AssertionError


class _AsyncHttp(httpx.AsyncClient):
    def __init__(self, retries: int, **options: Any) -> None:
        super().__init__(**options)
        self._retries = retries

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        _add_key(request, self.base_url)
        for attempt in count():
            response = None
            try:
                response = await super().send(request, **options)
                if response.is_error:
                    await response.aread()
                    raise TaskwrightError(response)
                return response
            except (httpx.TransportError, TaskwrightError):
                pause = _pause(request, response, attempt)
                if attempt == self._retries or pause is None:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError


def _add_key(request: httpx.Request, base_url: httpx.URL) -> None:
    path = request.url.path.removeprefix(base_url.path.removesuffix("/"))
    if request.method == "POST" and any(re.fullmatch(pattern, path) for pattern in KEYED):
        request.headers.setdefault("Idempotency-Key", str(uuid.uuid4()))


def _pause(request: httpx.Request, response: httpx.Response | None, attempt: int) -> float | None:
    """The seconds before a repeat, or None if there must be none."""
    is_unknown = response is None or response.status_code in _UNKNOWN
    if not (_is_repeatable(request) if is_unknown else response and response.status_code in _REFUSED):
        return None
    wanted = "" if response is None else response.headers.get("Retry-After", "")
    pause = max(int(wanted) if wanted.isdecimal() else 0, 2**attempt)
    # Clients that failed together must not come back together.
    return None if pause > _LONGEST_PAUSE else pause * random.uniform(1, 1.25)


def _is_repeatable(request: httpx.Request) -> bool:
    """Whether a repeat has the same effect and response as a first request that was processed."""
    if request.method == "POST":
        return "Idempotency-Key" in request.headers
    if request.method in ("PUT", "PATCH"):
        return "If-Match" not in request.headers and "If-None-Match" not in request.headers
    return request.method != "DELETE"
