"""Problem files of all kinds, and a hub on this machine."""

import csv
import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

from tests.conftest import ended, python
from tests.fakes.http import HttpFake, Request, answer

Files = dict[str, bytes]


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def csv_text(rows: list[dict[str, Any]], **dialect: Any) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def written(folder: Path, rows: list[dict[str, Any]]) -> list[Path]:
    """Write the rows into files of all kinds."""
    (folder / "set.json").write_text(json.dumps(rows))
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "set.csv").write_bytes(csv_text(rows).encode())
    return [
        parquet(folder / "set.parquet", rows),
        *(folder / f"set.{kind}" for kind in ("json", "jsonl", "csv")),
    ]


class Hub(HttpFake):
    """A hub of models or data sets by name, each with its files by commit. The tag v1 is the first
    commit, and v2 and main are the last. `about`: the data of its card. A repository named "gated"
    is refused without a token, and the files of one named "huge" seem to be so."""

    PATH = re.compile(
        r"(?:/api)?(?:/datasets|/models)?/([^/]+/[^/]+)/(revision|resolve|tree)/([^/]+)/?(.*)"
    )

    def __init__(self, held: dict[str, dict[str, Files]], about: dict[str, Any]) -> None:
        self.held, self.about, self.asked = held, about, list[str]()
        super().__init__()

    def get(self, request: Request) -> None:
        path = request.path.partition("?")[0]
        self.asked.append(path)
        found = self.PATH.fullmatch(path)
        repo, part, revision, name = found.groups() if found else ("", "", "", "")
        commits = self.held.get(repo)
        if commits is None:
            status, code = (403, "GatedRepo") if repo.endswith("/gated") else (404, "RepoNotFound")
            return answer(status, {"error": "Repository not found"}, X_Error_Code=code)(request)
        first, last = next(iter(commits)), list(commits)[-1]
        names = {"main": last, "v1": first, "v2": last}
        commit = names.get(revision, revision)
        if commit not in commits:
            return answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")(
                request
            )
        files = {"README.md": b"", ".gitattributes": b""} | commits[commit]
        sizes = {
            each: 2**50 if repo.endswith("/huge") else len(content)
            for each, content in files.items()
        }
        if part == "tree":
            tree = [
                {"type": "file", "path": each, "size": size, "oid": "0" * 40}
                for each, size in sizes.items()
            ]
            return answer(200, json.dumps(tree).encode())(request)
        if part == "revision":
            siblings = [{"rfilename": each, "size": size} for each, size in sizes.items()]
            return answer(
                200, {"id": repo, "sha": commit, "siblings": siblings, "cardData": self.about}
            )(request)
        if name not in files:
            return answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")(request)
        etag = f'"{hashlib.sha1(files[name]).hexdigest()}"'
        return answer(
            200, files[name], "application/octet-stream", ETag=etag, X_Repo_Commit=commit
        )(request)


def printed_by(
    program: str, root: str, home: Path, *names: str, **more: str
) -> list[dict[str, Any]]:
    """Run a program with the hub at `root`, and return the lines of JSON that it prints."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "program.py").write_text(program)
    settings = {
        "HF_ENDPOINT": root,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "",
        "NO_PROXY": "*",
    } | more
    status, out, err = ended(python(str(home / "program.py"), *names, **settings))
    assert status == 0 and err == "", err
    return [json.loads(line) for line in out.splitlines()]
