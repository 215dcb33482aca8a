"""Secrets of kinds that leaked from repositories, notebooks and logs are found. They are made here, so that no scanner
of a forge finds one in this file."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from importlib.resources import files
from pathlib import Path

import pytest

from tests.rows import each_row
from trainplan.workloads.job_mistakes import JobFileError
from trainplan.workloads.script_file import read_script_file
from trainplan.workloads.secret_rules import (
    LineCover,
    _rules,
    may_hold_secrets,
    names_a_secret,
    secret_kinds,
    secret_lines,
    without_secrets,
)

DRAW = random.Random(20261128)
UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
HEX, WORD = "0123456789abcdef", UPPER + LOWER + DIGITS
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def some(count: int, letters: str = WORD) -> str:
    return "".join(DRAW.choice(letters) for _ in range(count))


def token(*parts: str) -> str:
    return "".join(parts)


def jwt() -> str:
    parts = ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","iat":1516239022}')
    head, body = (base64.urlsafe_b64encode(one.encode()).decode().rstrip("=") for one in parts)
    return f"{head}.{body}.{some(43)}"


def uuid() -> str:
    return "-".join(some(count, HEX) for count in (8, 4, 4, 4, 12))


SECRETS = {
    "aws key id": token("AK", "IA", some(16, BASE32)),
    "aws session key id": token("AS", "IA", some(16, BASE32)),
    "aws bedrock": token("AB", "SK", some(115)),
    "aws secret": f'aws_secret_access_key = "{some(40, WORD + "/+")}"',
    "google api key": token("AI", "za", some(35)),
    "azure account": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={some(86)}==",
    "azure signature": f"https://a.blob.core.windows.net/c/d.npz?sv=2024-11-04&sig={some(43)}%3D",
    "azure client": f"{some(3)}8Q~{some(34)}",
    "github personal": token("gh", "p_", some(36)),
    "github oauth": token("gh", "o_", some(36)),
    "github app": token("gh", "s_", some(36)),
    "github refresh": token("gh", "r_", some(36)),
    "github fine": token("github", "_pat_", some(82)),
    "gitlab personal": token("gl", "pat-", some(20)),
    "gitlab pipeline": token("gl", "ptt-", some(40, HEX)),
    "gitlab runner": token("gl", "rt-", some(20)),
    "gitlab deploy": token("gl", "dt-", some(20)),
    "hugging face": token("hf", "_", some(34, LOWER)),
    "hugging face organization": token("api", "_org_", some(34, LOWER)),
    "openai": token("sk", "-", some(20), "T3Blbk", "FJ", some(20)),
    "openai project": token("sk", "-proj-", some(74), "T3Blbk", "FJ", some(74)),
    "anthropic": token("sk", "-ant-api03-", some(93), "AA"),
    "cohere": f'cohere_api_key = "{some(40)}"',
    "perplexity": token("pp", "lx-", some(48)),
    "wandb": f'wandb.login(key="{some(40, HEX)}")',
    "wandb variable": f"WANDB_API_KEY={some(40, HEX)}",
    "databricks": token("da", "pi", some(32, HEX)),
    "slack bot": token("xo", "xb-", some(11, DIGITS), "-", some(12, DIGITS), "-", some(24)),
    "slack user": token("xo", "xp-", some(11, DIGITS), "-", some(11, DIGITS), "-", some(11, DIGITS), "-", some(30)),
    "slack app": token("xa", "pp-1-", some(10, UPPER), "-", some(12, DIGITS), "-", some(64, HEX)),
    "slack hook": token("https://hooks.", "slack.com/services/", some(44)),
    "discord": f'discord_token = "{some(64, HEX)}"',
    "telegram": f'telegram_bot = "{some(9, DIGITS)}:A{some(34)}"',
    "stripe live": token("sk", "_live_", some(24)),
    "stripe restricted": token("rk", "_live_", some(24)),
    "square": token("sq0", "atp-", some(22)),
    "twilio": token("SK", some(32, HEX)),
    "sendgrid": token("SG", ".", some(66, LOWER + DIGITS)),
    "mailgun": f'mailgun = "{token("ke", "y-", some(32, HEX))}"',
    "mailchimp": f'mailchimp_key = "{some(32, HEX)}-us20"',
    "npm": token("np", "m_", some(36, LOWER + DIGITS)),
    "pypi": token("py", "pi-AgEIcHlwaS5vcmc", some(60)),
    "rubygems": token("ruby", "gems_", some(48, HEX)),
    "docker hub in an address": f"https://me:{some(20)}@registry.example.com/v2",
    "database": f"postgresql://train:{some(16)}@db.example.com:5432/runs",
    "mongodb": f"mongodb+srv://train:{some(16)}@cluster0.example.net",
    "digitalocean": token("do", "p_v1_", some(64, HEX)),
    "heroku": f'heroku_key = "{uuid()}"',
    "cloudflare": f'cloudflare_api_key = "{some(40, LOWER + DIGITS)}"',
    "fastly": f'fastly_key = "{some(32, LOWER + DIGITS)}"',
    "grafana": token("gl", "sa_", some(32), "_", some(8, HEX)),
    "sentry": token("snt", "ryu_", some(64, HEX)),
    "new relic": f'newrelic_key = "{token("NR", "AK-", some(27, LOWER + DIGITS))}"',
    "datadog": f'datadog_api = "{some(40, LOWER + DIGITS)}"',
    "linear": token("lin", "_api_", some(40, LOWER + DIGITS)),
    "airtable": f'airtable = "{token("pa", "t", some(14), ".", some(64, HEX))}"',
    "dropbox": f'dropbox_token = "{some(15, LOWER + DIGITS)}"',
    "shopify": token("shp", "at_", some(32, HEX)),
    "vault": token("hv", "s.", some(95)),
    "terraform": token(some(14), ".atlas", "v1.", some(65)),
    "doppler": token("dp", ".pt.", some(43, LOWER + DIGITS)),
    "postman": token("PM", "AK-", some(24, HEX), "-", some(34, HEX)),
    "jwt": jwt(),
    "bearer": f"Authorization: Bearer {some(40)}",
    "private key": token("-----BEGIN RSA ", "PRIVATE KEY-----\n", some(200), "\n-----END RSA ", "PRIVATE KEY-----"),
    "age": token("AGE-", "SECRET-KEY-1", some(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
}


def test_there_are_at_least_sixty_kinds() -> None:
    assert len(SECRETS) >= 60


@each_row("text", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_found_and_covered(text: str) -> None:
    assert list(secret_kinds(text))
    assert not list(secret_kinds(without_secrets(f"first {text} last")))
    assert without_secrets(f"first {text} last").startswith("first ")


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_a_script_that_holds_a_secret_is_refused_by_its_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import os\n\nKEY = '''{text}'''\n")
    with pytest.raises(JobFileError, match=r"train.py, line [34]: this seems to be a secret") as refused:
        read_script_file(tmp_path / "train.py")
    assert text not in str(refused.value)


HARMLESS = [
    "model = keras.applications.EfficientNetV2B0(weights=None, classes=10)",
    "checkpoint = 'sha256:" + "0123456789abcdef" * 4 + "'",
    "parser.add_argument('--pad_token', default='<pad>')",
    "tokenizer = AutoTokenizer.from_pretrained('bert-base-uncased', use_auth_token=True)",
    "url = 'https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz'",
    "password = os.environ['PASSWORD']; api_key = os.getenv('OPENAI_API_KEY')",
    "wandb.init(project='flowers', config={'lr': 1e-3})",
    "path = f'https://{user}:{password}@example.com/data'",
    "key = jax.random.PRNGKey(0)",
    "pad_token = 'a-token-of-the-text-model-no-2'; tokenizer = 'facebook/bart-large-cnn-12-6'",
    "key = 'training_images_per_second_2'",
    "revision = '" + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b" + "'",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_line_is_none(text: str) -> None:
    assert not list(secret_lines(text))


@pytest.mark.parametrize(
    "line",
    [
        'os.environ["WANDB_API_KEY"] = "{}"',
        "wandb.login(key='{}')",
        'login(key="{}")',
        '{{"api_key": "{}"}}',
        'COMET_API_KEY = "{}"',
        'client = Client(auth_token="{}")',
    ],
)
def test_a_value_that_a_program_gives_to_a_secrets_name_is_one(line: str) -> None:
    assert [number for number, _ in secret_lines("import os\n" + line.format(some(40, HEX)))] == [2]


def test_a_line_that_is_marked_is_taken() -> None:
    line = f"EXAMPLE = '{SECRETS['github personal']}'"
    assert list(secret_lines(line)) == [(1, "github-pat")]
    assert not list(secret_lines(f"{line}  # gitleaks:allow"))
    assert not list(secret_lines(f"{line}  # pragma: allowlist secret"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("secret-key", "x"), ("wandb_key", some(40, HEX)), ("hftoken", some(34)), ("pwd", "abc"), ("password", "abc"),
        ("WANDB_API_KEY", some(40, HEX)), ("auth", some(24)), ("key", some(24)), ("api-key", "x"), ("account_key", "x"),
    ],
)  # fmt: skip
def test_a_name_tells_a_secret(name: str, value: str) -> None:
    assert names_a_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pad_token", "[PAD]"),
        ("placeholder_token", "<cat-toy>"),
        ("num_tokens", "128"),
        ("key", "image"),
        ("auth", "none"),
        ("keys", "a,b"),
        ("lr", "1"),
    ],
)
def test_a_name_tells_none(name: str, value: str) -> None:
    assert not names_a_secret(name, value)


def test_a_line_of_megabytes_is_whole_and_covered_where_it_is_read() -> None:
    secret = SECRETS["github personal"]
    shown = without_secrets(f"{'a ' * 50_000}{secret} {'b ' * 1_000_000}")
    assert secret not in shown
    assert len(shown) == 2_100_000 + 2


@each_row("text", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_covered_line_by_line_as_a_program_prints_it(text: str) -> None:
    cover = LineCover()
    shown = [cover(line) for line in ["first", *f"config {text}".splitlines(), "last"]]
    assert (shown[0], shown[-1]) == ("first", "last")
    assert not list(secret_kinds("\n".join(shown)))
    assert all("…" in line for line in shown[1:-1])


def test_what_no_end_follows_is_not_covered_for_ever() -> None:
    cover = LineCover()
    lines = ["-----BEGIN RSA PRIVATE " + "KEY-----", *map(str, range(300))]
    assert [cover(line) for line in lines][-1] == "299"


def test_no_rule_tries_each_place_of_a_long_line_again_and_again() -> None:
    """Two of them took 33 s for a line of 1 MB that a picture in base64 is."""
    assert not [rule.id for rule in _rules() if re.match(r"(\(\?i\)|\(\?i:)?\[[^]]*\](\{0,|[*+])", rule.pattern)]


def test_a_text_without_any_word_of_a_rule_is_known_to_hold_no_secret() -> None:
    rules = json.loads(files("trainplan.workloads").joinpath("data/secret_rules.json").read_text(encoding="utf-8"))
    for word in (word for rule in rules["rules"] for word in rule["words"]):
        assert may_hold_secrets(f"first\nthe {word.upper()} last\n"), word
    assert not may_hold_secrets("Epoch 3/90, loss 0.231, 28.91 %\n" * 3)
