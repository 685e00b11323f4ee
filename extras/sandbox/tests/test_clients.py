"""Programs that people use, in the sandbox, through the proxy to a real server with TLS on this machine."""

import os
import shutil
from pathlib import Path

import pytest

from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.landlock import LandlockRunner
from skills_agent.sandbox.seatbelt import SeatbeltRunner
from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from tests.raw_servers import HOST, PAGE

SANDBOXES = {"bwrap": BwrapRunner, "landlock": LandlockRunner, "seatbelt": SeatbeltRunner}


def run(folder: Path, line: str, *hosts: str, level: str = "bwrap") -> ScriptResult:
    runner = SANDBOXES[level](
        workspace=folder, environment=dict(os.environ), timeout=120, is_allowed=lambda _: True
    )
    if why_not := runner.why_not():
        pytest.skip(why_not)
    request = ScriptRequest(
        skill="",
        script=None,
        args=("bash", "-c", line),
        stdin=None,
        workdir=folder,
        hosts=tuple(map(HostPattern.parse, hosts)),
    )
    return runner.run(request)


NODE_SOURCE = """
const at = new URL(process.env.HTTPS_PROXY);
const [host, port] = process.argv.slice(2);
require('http').request({host: at.hostname, port: at.port, method: 'CONNECT', path: `${host}:${port}`})
  .on('connect', (answer, socket) => {
    if (answer.statusCode != 200) { console.error(answer.statusCode); process.exit(1); }
    const get = require('https').get;
    get({host, port, path: '/page.txt', socket, agent: false}, (page) => page.pipe(process.stdout));
  }).end();
"""
CLIENTS = {
    "curl": "curl -sS --cacert ca.pem https://HOST:PORT/page.txt",
    "wget": "wget -q -O - --ca-certificate=ca.pem https://HOST:PORT/page.txt",
    "python3": (
        "SSL_CERT_FILE=ca.pem python3 -c 'import sys, urllib.request as u; "
        'print(u.urlopen("https://HOST:PORT/page.txt").read().decode())\''
    ),
    "node": "NODE_EXTRA_CA_CERTS=ca.pem node get.js HOST PORT",
}


@pytest.mark.parametrize("level", SANDBOXES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.variants
def test_a_program_reaches_the_host_that_was_agreed_to_and_no_other(
    tmp_path: Path, port: int, client: str, level: str
) -> None:
    if not shutil.which(client.split(maxsplit=1)[0]):
        pytest.skip("it is not installed")
    (tmp_path / "get.js").write_text(NODE_SOURCE)
    line = CLIENTS[client].replace("PORT", str(port))
    there = run(tmp_path, line.replace("HOST", HOST), f"{HOST}:{port}", level=level)
    assert (there.exit_code, there.stdout.strip(), there.note) == (0, PAGE, ""), there.stderr
    other = run(tmp_path, line.replace("HOST", "other.example.invalid"), f"{HOST}:{port}", level=level)
    assert other.exit_code
    assert f"Not connected: other.example.invalid:{port} (the network is closed to it)" in other.note
