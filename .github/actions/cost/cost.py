"""Comments on a pull request what it changes in the time and cost of its training jobs, and fails above a limit.

`action.yml` runs it in the checkout of the pull request, with what it needs in the environment: BASE (a commit),
PULL_REQUEST (its number), JOBS (git pathspecs), MAX_INCREASE, OPTIONS (of `plan estimate`), TOKEN, and what GitHub sets
(GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_STEP_SUMMARY). Job files are data: nothing of the pull request is run.

Exit codes: 0; 1 where a job became dearer than MAX_INCREASE allows; 2 where the inputs are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from trainplan.workloads.jobfile import looks_like_job

MARKER = "<!-- trainplan: cost of training -->"
"""The first line of the comment, by which it is found again."""
MOST_CHARACTERS = 65_000
"""GitHub takes 65,536 in a comment."""
SECONDS = 60
UNMEASURED = "unmeasured"
"""The basis of a script's figures that nobody has measured: they are those of its deadline, the most that it takes."""


class InputError(Exception):
    """What is wrong with an input of the action, and what is expected."""


class Part(NamedTuple):
    """What is said of one job; `usd` and `percent` are by how much its cheapest offer became dearer (None: unknown)."""

    text: str
    path: str = ""
    usd: float | None = None
    percent: float | None = None


class Limit(NamedTuple):
    """The most by which a job may become dearer, in percent or in dollars."""

    value: float
    is_percent: bool
    text: str

    @classmethod
    def read(cls, text: str) -> Limit | None:
        """`20%` or `$5`; None where it is empty. Raises InputError."""
        text = text.strip()
        if not text:
            return None
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%|\$\s*(\d+(?:\.\d+)?)", text)
        if found is None:
            raise InputError(f"max-increase: {text!r} is neither 20% nor $5")
        return cls(float(found[1] or found[2]), found[1] is not None, text)

    def is_exceeded_by(self, part: Part) -> bool:
        """Whether the job became dearer by more; what was free and is not now exceeds any percentage."""
        if part.usd is None or part.usd <= 0:
            return False
        if self.is_percent:
            return part.percent is None or part.percent > self.value
        return part.usd > self.value


def changed_jobs(base: str, pathspecs: list[str]) -> list[str]:
    """The job files that differ from the commit at which the pull request branched off."""
    branched = git("merge-base", base, "HEAD").strip()
    names = git("diff", "--name-only", "-z", "--diff-filter=AM", branched, "--", *pathspecs)
    return [name for name in names.split("\0") if name and is_job(Path(name))]


def is_job(path: Path) -> bool:
    """Whether it is a job file of this checkout. A link is none: it could show what else lies on this computer."""
    is_here = path.is_file() and path.resolve() == Path.cwd().resolve() / path
    return is_here and looks_like_job(path.read_text("utf-8", "replace"))


def git(*words: str) -> str:
    """What git prints. Raises InputError where it fails."""
    ran = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise InputError(f"git {words[0]}: {ran.stderr.strip()[-300:]} (actions/checkout needs fetch-depth: 0)")
    return ran.stdout


def part_of(path: str, base: str, plan: list[str], options: list[str]) -> Part:
    """What the pull request changes in a job, or what a new job takes."""
    branched = git("merge-base", base, "HEAD").strip()
    shown = subprocess.run(["git", "show", f"{branched}:{path}"], capture_output=True, check=False)
    title, file = f"### {as_code(path)}", f"./{path}"
    if shown.returncode:
        new = run([*plan, "estimate", file, "--limit", "5", "--format", "markdown", *options])
        return Part(f"{title}\nA new job.\n\n{new.stdout if not new.returncode else as_block(new.stderr)}", path)
    # Beside the new one, since a job file names its data from where it lies.
    with tempfile.NamedTemporaryFile(dir=Path(path).parent, suffix=".yaml") as before:
        before.write(shown.stdout)
        before.flush()
        name = os.path.relpath(before.name)
        words = [*plan, "estimate", f"./{name}", "--compare", file, *options]
        text, data = run([*words, "--format", "markdown"]), run([*words, "--json"])
    if data.returncode or text.returncode:
        return Part(f"{title}\nNot compared:\n{as_block(data.stderr or text.stderr)}", path)
    return compared(title, path, json.loads(data.stdout), text.stdout.replace(escaped(name), f"{escaped(path)} before"))


def escaped(name: str) -> str:
    """A path as `plan` writes it into Markdown, where it has nothing but letters, figures and what paths have."""
    return re.sub(r"([\\`*_{}\[\]<>|~&])", r"\\\1", name)


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    """The command with what it printed; it is not told the token."""
    without = {name: value for name, value in os.environ.items() if name != "TOKEN"}
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, env=without)


def compared(title: str, path: str, data: dict[str, Any], table: str) -> Part:
    """The comparison in a sentence, with the table below it to open."""
    pair = data["cheapest"]
    details = f"<details><summary>all figures</summary>\n\n{table}\n</details>"
    if not data["changed"]:
        return Part(f"{title}\nNo change of what is trained.", path, 0.0, 0.0)
    if pair["a"] is None or pair["b"] is None:
        missing = "no offer fits it now" if pair["b"] is None else "no offer fitted it before"
        return Part(f"{title}\n**{missing}**\n\n{details}", path)
    cost, time = pair["difference"]["cost_usd"], pair["difference"]["total_seconds"]
    noise = ""
    overlap = pair["intervals_overlap"] or {}  # nothing overlaps where a deadline alone is known
    if overlap.get("cost_usd") and not pair["same_machine"] and cost["absolute"]:
        noise = "; within the noise of the estimate (the 80 % intervals overlap)"
    line = (
        f"**Cheapest offer: {usd(pair['a'])} → {usd(pair['b'])} ({share(cost)})**, "
        f"{hours(pair['a'])} → {hours(pair['b'])} ({share(time)}){noise}"
    )
    return Part(f"{title}\n{line}\n\n{details}", path, cost["absolute"], cost["percent"])


def share(delta: dict[str, float | None]) -> str:
    """`+64 %`."""
    percent = delta["percent"]
    return "no change" if not delta["absolute"] else "from nothing" if percent is None else f"{percent:+.0f} %"


def usd(offer: dict[str, Any]) -> str:
    """`$4.14`; `up to $4.14` where the deadline alone is known."""
    return f"{'up to ' if offer['basis'] == UNMEASURED else ''}${offer['cost_usd']:,.2f}"


def hours(offer: dict[str, Any]) -> str:
    """`49.1 h`, `12 min`; `up to 24.0 h` where the deadline alone is known."""
    seconds = offer["total_seconds"]
    text = f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
    return f"up to {text}" if offer["basis"] == UNMEASURED else text


def as_code(text: str) -> str:
    """A name on a line, which nothing in it can leave."""
    shown = re.sub(r"[\x00-\x1f\x7f`<>]", "?", text)
    return f"`{shown}`"


def as_block(text: str) -> str:
    """Lines as they are, which nothing in them can leave."""
    return "\n".join(f"    {re.sub(r'[^ -~]', '?', line)}" for line in ["", *text.strip().splitlines()[:20], ""])


def comment(parts: list[Part], limit: Limit | None) -> str:
    """The whole comment."""
    lines = [MARKER, "## Cost of training"]
    lines += [part.text for part in parts] or ["This pull request changes no training job."]
    above = [part.path for part in parts if limit is not None and limit.is_exceeded_by(part)]
    if limit is not None and above:
        lines.append(f"**Above max-increase ({limit.text}): {', '.join(map(as_code, above))}**")
    lines.append("<sub>List prices before tax and discounts; estimates of `plan estimate --compare`.</sub>")
    text = "\n\n".join(lines)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n\n(cut: the comment was too long)"


def publish(text: str, *, is_needed: bool) -> None:
    """Write the pull request's one comment, or update it. Without a comment nothing is written unless `is_needed`."""
    issues = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    mine = own_comment(f"{issues}/{int(os.environ['PULL_REQUEST'])}/comments?per_page=100")
    if mine is not None:
        request("PATCH", f"{issues}/comments/{mine}", {"body": text})
    elif is_needed:
        request("POST", f"{issues}/{int(os.environ['PULL_REQUEST'])}/comments", {"body": text})


def own_comment(address: str | None) -> int | None:
    """The id of the comment that this action wrote: of a bot, and with the marker, which a person can type too."""
    while address:
        comments, address = request("GET", address)
        for one in comments:
            if (one["user"] or {}).get("type") == "Bot" and (one["body"] or "").startswith(MARKER):
                return int(one["id"])
    return None


def request(method: str, address: str, body: dict[str, str] | None = None) -> tuple[Any, str | None]:
    """What GitHub replies, and the address of the next page where there is one. Raises OSError."""
    made = urllib.request.Request(address, json.dumps(body).encode() if body else None, method=method)
    made.add_header("Authorization", f"Bearer {os.environ['TOKEN']}")
    made.add_header("Accept", "application/vnd.github+json")
    made.add_header("X-GitHub-Api-Version", "2022-11-28")
    if body:
        made.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(made, timeout=SECONDS) as reply:
        following = re.search(r'<([^>]*)>;\s*rel="next"', reply.headers.get("Link") or "")
        return json.loads(reply.read()), following[1] if following else None


def main(arguments: list[str]) -> int:
    """Compare, publish, judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", default="plan", help="the command")
    plan = shlex.split(parser.parse_args(arguments).plan)
    environment = os.environ
    try:
        limit = Limit.read(environment.get("MAX_INCREASE", ""))
        options = shlex.split(environment.get("OPTIONS", ""))
        jobs = changed_jobs(environment["BASE"], shlex.split(environment.get("JOBS", "")))
        parts = [part_of(path, environment["BASE"], plan, options) for path in jobs]
    except InputError as error:
        sys.stderr.write(f"::error::{error}\n")
        return 2
    text = comment(parts, limit)
    if environment.get("GITHUB_STEP_SUMMARY"):
        with Path(environment["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
            summary.write(f"{text}\n")
    try:
        publish(text, is_needed=bool(parts))
    except (urllib.error.URLError, OSError) as error:
        # A pull request from a fork has a token that may only read: the summary of the run has the text all the same.
        sys.stdout.write(f"::warning::the comment was not written ({error}); the summary of this run has it\n")
    above = [part for part in parts if limit is not None and limit.is_exceeded_by(part)]
    for part in above:
        sys.stdout.write(f"::error::{as_code(part.path)}: {part.usd:+.2f} USD is above max-increase\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
