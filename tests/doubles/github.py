"""A double of GitHub's REST API for the comments of an issue, which a pull request is too.

A comment has the keys of a recorded delivery of `issue_comment` (a public repository, 2025-09-28). That a POST is
answered with 201 is as octokit/fixtures recorded it (paginate-issues, 2021-05-05). The words of a 403 are those that
users of read-only tokens report. Assumed, from GitHub's documentation: a PATCH is answered with 200, `Link` leads from
page to page, and a comment takes 65,536 characters.
Stricter than GitHub: a request without the headers that its documentation recommends is refused.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.doubles.serving import QuickHandler, Serving

TOKEN = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
"""A token of the form that GitHub gives; nobody has it."""
MOST_CHARACTERS = 65_536
_DOCUMENTATION = "https://docs.github.com/rest/issues/comments"


class GitHub(Serving):
    """A repository with its pull requests' comments, which `comments` has in the order they were written.

    `may_write`: whether the token may; that of a pull request from a fork may not.
    """

    def __init__(self, *, may_write: bool = True) -> None:
        self.comments: list[dict[str, Any]] = []
        self.may_write = may_write
        self.requests: list[str] = []
        double = self

        class Handler(QuickHandler):
            def do_GET(self) -> None:
                double.reply(self)

            do_POST = do_PATCH = do_GET

            def log_message(self, format: str, *args: object) -> None: ...

        super().__init__(Handler)

    def says(self, body: str, *, login: str = "octocat", kind: str = "User", number: int = 7) -> dict[str, Any]:
        """A comment is written."""
        id_ = 1_000 + len(self.comments)
        issue = f"{self.url}/repos/octo/nets/issues/{number}"
        self.comments.append(
            {
                "url": f"{self.url}/repos/octo/nets/issues/comments/{id_}",
                "html_url": f"https://github.com/octo/nets/pull/{number}#issuecomment-{id_}",
                "issue_url": issue,
                "id": id_,
                "node_id": "MDEyOklzc3VlQ29tbWVudDE=",
                "user": {"login": login, "id": 41898282, "type": kind, "site_admin": False},
                "created_at": "2026-11-26T12:00:00Z",
                "updated_at": "2026-11-26T12:00:00Z",
                "body": body,
                "author_association": "NONE",
                "reactions": {"url": f"{self.url}/repos/octo/nets/issues/comments/{id_}/reactions", "total_count": 0},
                "performed_via_github_app": None,
            }
        )
        return self.comments[-1]

    def reply(self, handler: QuickHandler) -> None:
        split = urlsplit(handler.path)
        method = handler.command
        self.requests.append(f"{method} {split.path}")
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length)) if length else None
        code, answer, links = self._answer(handler, method, split.path, parse_qs(split.query), body)
        text = json.dumps(answer).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json; charset=utf-8")
        handler.send_header("Content-Length", str(len(text)))
        if links:
            handler.send_header("Link", links)
        handler.end_headers()
        handler.wfile.write(text)

    def _answer(
        self, handler: QuickHandler, method: str, path: str, query: dict[str, list[str]], body: Any
    ) -> tuple[int, Any, str]:
        refused = self._refused(handler, method, body)
        if refused is not None:
            return *refused, ""
        of_issue = re.fullmatch(r"/repos/octo/nets/issues/(\d+)/comments", path)
        of_comment = re.fullmatch(r"/repos/octo/nets/issues/comments/(\d+)", path)
        if of_issue and method == "GET":
            return self._page(path, int(of_issue[1]), query)
        if of_issue and method == "POST":
            made = self.says(body["body"], login="github-actions[bot]", kind="Bot", number=int(of_issue[1]))
            return HTTPStatus.CREATED, made, ""
        found = [one for one in self.comments if of_comment and one["id"] == int(of_comment[1])]
        if found and method == "PATCH":
            found[0] |= {"body": body["body"], "updated_at": "2026-11-26T12:05:00Z"}
            return HTTPStatus.OK, found[0], ""
        return *_message(HTTPStatus.NOT_FOUND, "Not Found"), ""

    def _refused(self, handler: QuickHandler, method: str, body: Any) -> tuple[int, Any] | None:
        headers = handler.headers
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return _message(HTTPStatus.UNAUTHORIZED, "Bad credentials")
        if headers.get("Accept") != "application/vnd.github+json" or not headers.get("X-GitHub-Api-Version"):
            return _message(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Unsupported 'Accept' header")
        if method == "GET":
            return None
        if not self.may_write:
            return _message(HTTPStatus.FORBIDDEN, "Resource not accessible by integration")
        if not isinstance(body, dict) or not 0 < len(body.get("body", "")) <= MOST_CHARACTERS:
            return _message(HTTPStatus.UNPROCESSABLE_ENTITY, "Validation Failed")
        return None

    def _page(self, path: str, number: int, query: dict[str, list[str]]) -> tuple[int, Any, str]:
        size, at = (int(query.get(key, [usual])[0]) for key, usual in (("per_page", "30"), ("page", "1")))
        size = min(size, 100)
        mine = [one for one in self.comments if one["issue_url"].endswith(f"/{number}")]
        here = mine[size * (at - 1) : size * at]
        links = {"prev": at - 1 if at > 1 else None, "next": at + 1 if len(mine) > size * at else None, "first": 1}
        address = f"{self.url}{path}?per_page={size}&page="
        told = (f'<{address}{page}>; rel="{name}"' for name, page in links.items() if page is not None)
        return HTTPStatus.OK, here, ", ".join(told)


def _message(code: HTTPStatus, text: str) -> tuple[int, Any]:
    return code, {"message": text, "documentation_url": _DOCUMENTATION, "status": str(int(code))}
