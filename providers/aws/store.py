"""A bucket in Amazon S3."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from trainplan.providers.aws.errors import translated
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.stores.bucket import (
    RUNS,
    UNFINISHED_DAYS,
    BucketMissingError,
    Entry,
    ObjectPart,
    Page,
    UploadLostError,
)
from trainplan.providers.stores.regions import DEFAULT_REGIONS
from trainplan.providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

_TAG_KEY = "trainplan"
"""The tag that our own bucket gets after all its other settings."""
_SIGN_IN = "aws sso login, or aws configure"
_NOT_OURS = "name another bucket in the setting `bucket`"

# Code of S3 -> (our error, what to do). Any other code is judged by its status.
_ERRORS: Mapping[str, tuple[type[ProviderError], str]] = {
    "NoSuchBucket": (BucketMissingError, ""),
    "NoSuchUpload": (UploadLostError, ""),
    "AccessDenied": (PermissionDeniedError, "ask whoever owns the account for docs/stores.md's permissions"),
    "AllAccessDisabled": (PermissionDeniedError, "AWS has closed this account or bucket"),
    "AccountProblem": (PermissionDeniedError, "AWS has closed this account"),
    "InvalidAccessKeyId": (CredentialsError, _SIGN_IN),
    "SignatureDoesNotMatch": (CredentialsError, _SIGN_IN),
    "ExpiredToken": (CredentialsError, _SIGN_IN),
    "ExpiredTokenException": (CredentialsError, _SIGN_IN),
    "InvalidToken": (CredentialsError, _SIGN_IN),
    "InvalidClientTokenId": (CredentialsError, _SIGN_IN),
    "RequestTimeTooSkewed": (CredentialsError, "set this computer's clock"),
    "BucketAlreadyExists": (PermissionDeniedError, _NOT_OURS),
    "SlowDown": (ThrottledError, "wait a little"),
    "Throttling": (ThrottledError, "wait a little"),
    "RequestLimitExceeded": (ThrottledError, "wait a little"),
    "RequestTimeout": (TransientError, "try again"),
    "OperationAborted": (TransientError, "try again"),
    "BadDigest": (TransientError, "try again"),
    "PermanentRedirect": (BadRequestError, "the bucket is in another region: set `region`"),
    "AuthorizationHeaderMalformed": (BadRequestError, "the bucket is in another region: set `region`"),
    "IllegalLocationConstraintException": (BadRequestError, "the bucket is in another region: set `region`"),
}


def make(settings: ProviderSettings) -> S3Bucket:
    """The bucket of these settings; `bucket`, `region`, `endpoint` and `keep_days` are options."""
    store_settings = StoreSettings.of(settings, "aws")
    with _translated("S3"):
        return _bucket_of(store_settings)


def _bucket_of(store_settings: StoreSettings) -> S3Bucket:
    import boto3
    from botocore.config import Config

    session = boto3.Session(region_name=store_settings.region)
    region = session.region_name or DEFAULT_REGIONS["aws"]
    once = Config(
        # Repeats are the store's (providers/stores/patience.py): the SDK's own would multiply them.
        retries={"total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=60,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path"} if store_settings.endpoint else {},
    )
    client = session.client("s3", region_name=region, endpoint_url=store_settings.endpoint, config=once)
    if store_settings.bucket is not None:
        return S3Bucket(client, store_settings, region=region, account=None)
    # Another account's bucket of our name would get our data: S3 is told whose it has to be.
    with contextlib.closing(
        session.client("sts", region_name=region, endpoint_url=store_settings.endpoint, config=once)
    ) as caller:
        account = str(caller.get_caller_identity()["Account"])
    return S3Bucket(client, store_settings, region=region, account=account)


class S3Bucket:
    """`trainplan.providers.stores.bucket.Bucket` in S3. `client` is a boto3 client without repeats of its own."""

    provider = "aws"

    def __init__(self, client: Any, store_settings: StoreSettings, *, region: str, account: str | None) -> None:
        self.client = client
        self.region = region
        self.name = store_settings.bucket or f"trainplan-{account}-{region}"
        self.ours = store_settings.bucket is None
        self._keep_days = store_settings.keep_days
        self._owner = {"ExpectedBucketOwner": account} if account and self.ours else {}

    @property
    def uri(self) -> str:
        return f"s3://{self.name}"

    def make(self) -> None:
        with _translated(self.uri):
            there = self._there()
            # An existing bucket that the user named is not changed; our own is complete once it has its tag.
            if there and (not self.ours or self._is_made()):
                return
            if not there:
                self._create()
            self._arrange()

    def put(self, key: str, data: bytes) -> None:
        self._call("put_object", Key=key, Body=data, ContentMD5=md5(data))

    def get(self, key: str, start: int, size: int | None) -> bytes:
        if size == 0:
            return b""
        last = "" if size is None else start + size - 1
        span = {} if start == 0 and size is None else {"Range": f"bytes={start}-{last}"}
        with _translated(f"{self.uri}/{key}"):
            try:
                answer = self.client.get_object(Bucket=self.name, Key=key, **span, **self._owner)
                return bytes(answer["Body"].read())
            except self.client.exceptions.ClientError as error:
                if _code(error) in ("NoSuchKey", "404"):
                    raise KeyError(key) from None
                # `start` is at or past the end of the object: the protocol of stores returns b"" there.
                if _code(error) == "InvalidRange":
                    return b""
                raise

    def page(self, prefix: str, after: str) -> Page:
        more = {"ContinuationToken": after} if after else {}
        answer = self._call("list_objects_v2", Prefix=prefix, **more)
        rows = tuple(Entry(row["Key"], row["Size"]) for row in answer.get("Contents", ()))
        return Page(rows, answer.get("NextContinuationToken", ""))

    def delete(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        with contextlib.suppress(BucketMissingError):
            answer = self._call("delete_objects", Delete=objects)
            for failed in answer.get("Errors", ()):
                raise _error(failed["Code"], 0, failed.get("Message", ""), f"{self.uri}/{failed['Key']}")

    def begin(self, key: str, size_bytes: int) -> S3Upload:
        del size_bytes
        return S3Upload(self, key, self._call("create_multipart_upload", Key=key)["UploadId"], {})

    def resume(self, key: str, size_bytes: int, token: str) -> S3Upload:
        del size_bytes
        tags: dict[int, str] = {}
        after = 0
        while True:
            answer = self._call("list_parts", Key=key, UploadId=token, PartNumberMarker=after)
            tags |= {row["PartNumber"]: row["ETag"].strip('"') for row in answer.get("Parts", ())}
            if not answer.get("IsTruncated"):
                return S3Upload(self, key, token, tags)
            after = answer["NextPartNumberMarker"]

    def close(self) -> None:
        self.client.close()

    def _there(self) -> bool:
        try:
            self.client.head_bucket(Bucket=self.name, **self._owner)
        except self.client.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 403:
                raise PermissionDeniedError(
                    f"{self.uri} is not yours, or you may not see it", hint=_NOT_OURS, code="403"
                ) from error
            if status != 404:
                raise
            return False
        return True

    def _is_made(self) -> bool:
        try:
            tags = self.client.get_bucket_tagging(Bucket=self.name, **self._owner)["TagSet"]
        except self.client.exceptions.ClientError as error:
            if _code(error) != "NoSuchTagSet":
                raise
            return False
        return any(tag["Key"] == _TAG_KEY for tag in tags)

    def _create(self) -> None:
        # No ObjectOwnership: what it would say is S3's default, and it takes one permission more.
        where = {} if self.region == "us-east-1" else {"LocationConstraint": self.region}
        extra = {"CreateBucketConfiguration": where} if where else {}
        try:
            self.client.create_bucket(Bucket=self.name, **extra)
        except self.client.exceptions.ClientError as error:
            if _code(error) != "BucketAlreadyOwnedByYou":
                raise

    def _arrange(self) -> None:
        """Set what a new bucket needs. The tag comes last: after a crash before it, the next `make` sets everything
        again."""
        closed = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        self.client.put_public_access_block(
            Bucket=self.name, PublicAccessBlockConfiguration=dict.fromkeys(closed, True), **self._owner
        )
        self.client.put_bucket_lifecycle_configuration(
            Bucket=self.name, LifecycleConfiguration={"Rules": lifecycle(self._keep_days)}, **self._owner
        )
        if self.ours:
            tags = {"TagSet": [{"Key": _TAG_KEY, "Value": "1"}]}
            self.client.put_bucket_tagging(Bucket=self.name, Tagging=tags, **self._owner)

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        with _translated(f"{self.uri}/{arguments.get('Key', '')}"):
            return dict(getattr(self.client, operation)(Bucket=self.name, **arguments, **self._owner))

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Send one call of an upload."""
        return self._call(operation, **arguments)


class S3Upload:
    """A multipart upload. S3 checks each part against its MD5, by which a resumed upload knows the parts S3 has."""

    def __init__(self, bucket: S3Bucket, key: str, token: str, tags: dict[int, str]) -> None:
        self.token = token
        self._bucket = bucket
        self._key = key
        self._there = tags
        self._tags: dict[int, str] = {}

    def holds(self, part: ObjectPart) -> bool:
        """Whether S3 has this part. Under a KMS key the ETag is no MD5: such parts are sent again."""
        tag = hashlib.md5(part.data).hexdigest()
        if self._there.get(part.number + 1) != tag:
            return False
        self._tags[part.number + 1] = tag
        return True

    def send(self, part: ObjectPart) -> None:
        answer = self._bucket.call(
            "upload_part",
            Key=self._key,
            UploadId=self.token,
            PartNumber=part.number + 1,
            Body=part.data,
            ContentMD5=md5(part.data),
        )
        self._tags[part.number + 1] = answer["ETag"].strip('"')

    def finish(self) -> None:
        """Complete the upload. If S3 no longer knows it, an object with the ETag of these parts proves that it is
        complete."""
        parts = [{"PartNumber": number, "ETag": f'"{tag}"'} for number, tag in sorted(self._tags.items())]
        try:
            self._bucket.call(
                "complete_multipart_upload", Key=self._key, UploadId=self.token, MultipartUpload={"Parts": parts}
            )
        except UploadLostError:
            if self._stored_etag() != self._expected():
                raise

    def _stored_etag(self) -> str:
        try:
            return str(self._bucket.call("head_object", Key=self._key)["ETag"]).strip('"')
        except (ProviderError, KeyError):
            return ""

    def _expected(self) -> str:
        """The ETag of an object uploaded in parts: the MD5 of the parts' MD5s, and the number of parts."""
        try:
            sums = b"".join(bytes.fromhex(tag) for _, tag in sorted(self._tags.items()))
        except ValueError:
            return "no MD5"  # a tag of a KMS upload: it equals no ETag, so the lost upload is reported
        return f"{hashlib.md5(sums).hexdigest()}-{len(self._tags)}"


def lifecycle(keep_days: int) -> list[dict[str, object]]:
    """The lifecycle rules: S3 deletes unfinished uploads after a day, and runs after `keep_days` days (0: never)."""
    rules: list[dict[str, object]] = [
        {
            "ID": "unfinished-uploads",
            "Status": "Enabled",
            "Filter": {"Prefix": ""},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UNFINISHED_DAYS},
        }
    ]
    if keep_days:
        rules.append(
            {
                "ID": "old-runs",
                "Status": "Enabled",
                "Filter": {"Prefix": f"{RUNS}/"},
                "Expiration": {"Days": keep_days},
            }
        )
    return rules


def md5(data: bytes) -> str:
    """Return the MD5 as the header Content-MD5 requires it."""
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _error(code: str, status: int, text: str, what: str) -> ProviderError:
    """The ProviderError for a code of S3, else for the HTTP status."""
    message = f"{what}: {text or 'refused'}"
    if code in _ERRORS:
        kind, hint = _ERRORS[code]
        return kind(message, hint=hint, code=code)
    if status >= 500 or code in ("InternalError", "ServiceUnavailable", "503", "500", "502", "504"):
        throttled = code in ("ServiceUnavailable", "503")
        return (ThrottledError if throttled else TransientError)(message, hint="try again", code=code)
    by_status: Mapping[int, type[ProviderError]] = {
        400: BadRequestError,
        401: CredentialsError,
        403: PermissionDeniedError,
        429: ThrottledError,
    }
    return by_status.get(status, UnrecognizedError)(message, code=code)


_translated = partial(translated, error_of=_error)
