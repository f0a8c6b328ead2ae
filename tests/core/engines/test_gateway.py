"""Test gateways in front of equal servers, and the environment of a run behind one."""

from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines import environment
from core.engines.attach import probe
from core.engines.protocol import Server
from tests.core.engines.test_identity import hugging_face
from tests.core.engines.test_thinking import THINKS, tokens
from tests.fakes.engines import sglang


def test_in_a_fleet_a_path_of_weights_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0").write_text("http://node1:1")
    monkeypatch.setenv("MODEL", str(hugging_face(tmp_path / "model")))
    changes = environment.behind_gateway("http://10.0.0.1:1", tmp_path)
    assert (
        changes["BASE_URL"] == "http://10.0.0.1:1/v1"
        and "node1" in changes["no_proxy"]
        and "MODEL" not in changes
    )
    monkeypatch.setenv("MODEL", "lm-provers/QED-Nano")
    assert (
        environment.behind_gateway("http://10.0.0.1:1", tmp_path)["MODEL"] == "lm-provers/QED-Nano"
    )


def test_a_gateway_reports_its_servers_and_their_summed_limit(
    serve: Any, engine: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = serve({})
    monkeypatch.setenv("BASE_URL", front.url)
    monkeypatch.setenv("FLEET", str(tmp_path))

    pages = sglang() | tokens(THINKS)
    one = serve(pages)
    for i, server in enumerate((one, serve(pages))):
        (tmp_path / str(i)).write_text(server.root)
    alone = one.probed()
    gateway = front.probed()
    assert (gateway.key_fields, gateway.origin, gateway.base_url) == (
        alone.key_fields,
        alone.origin,
        front.url,
    )
    assert (gateway.limit, gateway.context) == (2 * alone.limit, alone.context)
    assert gateway.why == "x (a gateway in front of 2 servers)"
    assert gateway.thinking is True, "its servers report more than the gateway"
    assert probe(engine.base_url, "x") is not None, "another server, for example a grader"
    (tmp_path / "1").write_text(serve(sglang("/models/two")).root)
    with pytest.raises(UserError, match="/models/one.*/models/two"):
        front.probed()
    assert {path for path, _ in front.seen} <= {"/v1/models"}, (
        "the gateway is asked for no list of servers"
    )
