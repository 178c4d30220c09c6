"""`serve --role sidecar`: its flags, each of which the environment can give as well, and what is made of them."""

import asyncio
import re
import sys
from collections.abc import Callable
from typing import Any

import click

ENV = "LLM_FLEET_EXPORTER_SIDECAR_"


def _option(name: str, **more: Any) -> Callable[[Any], Any]:
    variable = ENV + name.lstrip("-").replace("-", "_").upper()
    return click.option(name, **{"default": "", "envvar": variable, "show_default": bool(more.get("default")), **more})


_OPTIONS = [
    _option("--engine-url", metavar="URL", help="Sidecar: the engine beside it, such as http://127.0.0.1:8000."),
    _option("--names", type=click.Choice(["vllm", "sglang", "trtllm-serve"]), default="vllm",
            help="Sidecar: whose names the page has; what the pod's engine label says."),
    _option("--picker-path", default="/picker", help="Sidecar: where the page stands."),
    _option("--fresh-for", default="100ms", help="Sidecar: a poll scrapes the engine when the last sample is older."),
    _option("--budget", default="800ms", help="Sidecar: longest time until a poll is answered, or refused with 503."),
    _option("--kv-fold", type=click.Choice(["max", "mean"]), default="max", help="Sidecar: KV-cache use over several ranks."),
    click.option("--kv-stand-in", is_flag=True, envvar=f"{ENV}KV_STAND_IN",
                 help="Sidecar: show the reserved budget where the engine tells no KV-cache use (TGI)."),
    _option("--adapters", type=click.Choice(["work", "loaded"]), default="work",
            help="Sidecar: LoRA adapters shown as running: those with work, or all that are loaded."),
    _option("--engine-bearer-file", metavar="FILE", help="Sidecar: token for the engine."),
    _option("--engine-ca-file", metavar="FILE", help="Sidecar: authorities to trust for the engine."),
    _option("--engine-cert-file", metavar="FILE", help="Sidecar: certificate to show the engine."),
    _option("--engine-key-file", metavar="FILE", help="Sidecar: its key."),
    click.option("--engine-insecure", is_flag=True, envvar=f"{ENV}ENGINE_INSECURE", help="Sidecar: check no certificate."),
    _option("--tls-cert-file", metavar="FILE", help="Sidecar: serve https with this certificate."),
    _option("--tls-key-file", metavar="FILE", help="Sidecar: its key."),
    _option("--tls-client-ca-file", metavar="FILE", help="Sidecar: ask clients for a certificate of these authorities."),
    _option("--bearer-file", metavar="FILE", help="Sidecar: token that clients must send."),
]  # fmt: skip


def sidecar_options(command: Callable[..., None]) -> Callable[..., None]:
    """All flags of the role, in the order in which help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_sidecar(host: str, port: int, flags: dict[str, Any]) -> None:
    """Run until told to stop. Wrong flags end with exit code 2, an address or file that cannot be used with 1."""
    from exporter.sidecar.serve import ListenError, serve

    plan = _plan(host, port, flags)
    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        with runner:
            runner.run(serve(plan))
    except ListenError as error:
        click.echo(str(error), err=True)
        sys.exit(1)


def _plan(host: str, port: int, flags: dict[str, Any]) -> Any:
    from exporter.sidecar.guard import ServerTls
    from exporter.sidecar.page import Style
    from exporter.sidecar.serve import Plan

    if bool(flags["tls_key_file"] or flags["tls_client_ca_file"]) and not flags["tls_cert_file"]:
        raise click.UsageError("--tls-key-file and --tls-client-ca-file need --tls-cert-file")
    if not re.fullmatch(r"/[!-~]*", path := flags["picker_path"]) or path in ("/healthz", "/status") or set(path) & set("?#"):
        raise click.UsageError(f"--picker-path: expected a free path such as /picker, got {path!r}")
    tls = ServerTls(cert_file=flags["tls_cert_file"], key_file=flags["tls_key_file"], client_ca_file=flags["tls_client_ca_file"])
    style = Style(names=flags["names"], kv_fold=flags["kv_fold"], kv_stand_in=flags["kv_stand_in"], adapters=flags["adapters"])
    return Plan(target=_target(flags), host=host, port=port, path=flags["picker_path"], style=style, pace=_pace(flags),
                tls=tls if tls.cert_file else None, bearer_file=flags["bearer_file"])  # fmt: skip


def _target(flags: dict[str, Any]) -> Any:
    from collector.auth import Auth, Tls
    from collector.model import Target
    from collector.urls import normal_url

    if not flags["engine_url"]:
        raise click.UsageError("--role sidecar needs --engine-url, such as http://127.0.0.1:8000")
    if flags["engine_key_file"] and not flags["engine_cert_file"]:
        raise click.UsageError("--engine-key-file needs --engine-cert-file")
    if flags["engine_insecure"] and flags["engine_ca_file"]:
        raise click.UsageError("--engine-insecure checks nothing, so --engine-ca-file contradicts it")
    try:
        url = normal_url(flags["engine_url"])
    except ValueError as error:
        raise click.UsageError(f"--engine-url: {error}") from error
    auth = Auth(bearer_file=flags["engine_bearer_file"]) if flags["engine_bearer_file"] else None
    tls = Tls(flags["engine_ca_file"], flags["engine_cert_file"], flags["engine_key_file"], insecure=flags["engine_insecure"])
    return Target(url=url, namespace="", pool="", pod="", auth=auth, tls=tls)


def _pace(flags: dict[str, Any]) -> Any:
    from exporter.sidecar.through import Pace
    from exporter.units import parse_duration

    times = {}
    for name in ("fresh_for", "budget"):
        try:
            times[name] = parse_duration(flags[name])
        except ValueError as error:
            raise click.UsageError(f"--{name.replace('_', '-')}: {error}") from error
    if times["budget"] >= 1.0:
        raise click.UsageError(f"--budget: a picker waits 1 s at most, so expected less, got {flags['budget']}")
    return Pace(**times)
