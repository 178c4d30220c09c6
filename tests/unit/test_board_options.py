"""What whoever installs the boards chooses: matchers everywhere, uids in every link, files in three forms, clear refusals."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import promql_parser
import pytest
import yaml
from click.testing import CliRunner

from dashboards.boards import BOARDS
from dashboards.draw import drawn
from dashboards.narrow import narrowed
from dashboards.options import Options, matcher
from dashboards.render import Form, write
from exporter.cli import main
from tests.promql import parsed, selectors

NARROW = Options(matchers=(("env", "=~prod|test"), ("team", "ml")))


def panels(board):
    return [inner for one in board["panels"] for inner in (one, *one.get("panels", ()))]


def expressions(board):
    for panel in panels(board):
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (one["expr"] for one in board["annotations"]["list"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield re.fullmatch(r"label_values\((.*), \w+\)", variable["query"])[1]


def urls(board):
    for panel in panels(board):
        config = panel.get("fieldConfig", {})
        yield from (link["url"] for link in config.get("defaults", {}).get("links", ()))
        for override in config.get("overrides", ()):
            for one in override["properties"]:
                if one["id"] == "links":
                    yield from (link["url"] for link in one["value"])
    yield from (link["url"] for link in board["links"] if link.get("url"))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_a_matcher_is_in_every_selector_and_changes_nothing_else(board):
    plain, narrow = list(expressions(drawn(board))), list(expressions(drawn(board, NARROW)))
    assert len(plain) == len(narrow)
    for one, other in zip(plain, narrow, strict=True):
        for selector, _ in selectors(parsed(other)):
            wanted = {(match.name, match.value) for match in selector.matchers.matchers}
            assert {("env", "prod|test"), ("team", "ml")} <= wanted, other
        assert other.replace('env=~"prod|test", team="ml"', "").replace("{, ", "{").replace("{}", "") == one


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("llm_pool_pods", 'llm_pool_pods{env="x"}'),
        ('llm_pool_pods{pool="a"}', 'llm_pool_pods{env="x", pool="a"}'),
        ('f{signal="llm_pool_pods"}', 'f{signal="llm_pool_pods"}'),
        ('llm_pool_pods{pool="say \\"llm_pool_pods\\""}', 'llm_pool_pods{env="x", pool="say \\"llm_pool_pods\\""}'),
        ("pool:llm_slo_good:increase5m / 2", 'pool:llm_slo_good:increase5m{env="x"} / 2'),
        ("ALERTS and ALERTS_FOR_STATE", 'ALERTS{env="x"} and ALERTS_FOR_STATE{env="x"}'),
        ("sum by (pool) (llm_pool_pods) > 0", 'sum by (pool) (llm_pool_pods{env="x"}) > 0'),
        ("max by (llm) (process_open_fds[5m])", 'max by (llm) (process_open_fds{env="x"}[5m])'),
    ],
)
def test_selectors_are_found_and_words_in_strings_left_alone(expression, expected):
    assert narrowed(expression, [("env", "x")]) == expected


def test_all_matchers_of_one_label_hold():
    assert narrowed("llm_pool_pods", [("env", "=~prod.*"), ("env", "!=prod-test")]) == (
        'llm_pool_pods{env=~"prod.*", env!="prod-test"}'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env=prod", ("env", "=prod")),
        ('env="prod"', ("env", "=prod")),
        ("env=~prod|test", ("env", "=~prod|test")),
        ("env!=dev", ("env", "!=dev")),
        (' env!~"a.*" ', ("env", "!~a.*")),
        ("env=", ("env", "=")),
        ('env=a"b', ("env", '=a"b')),
        ("env=größe", ("env", "=größe")),
    ],
)
def test_matchers_are_read_as_promql_writes_them(text, expected):
    assert matcher(text) == expected
    promql_parser.parse(narrowed("llm_pool_pods", [matcher(text)]))


@pytest.mark.parametrize("text", ["", "env", "=prod", "env prod", "1env=x", "env-x=y", "env=~(", "env=~(?!a)", "env>3"])
def test_what_is_no_matcher_is_refused_by_name(text):
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        matcher(text)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_links_lead_to_boards_that_exist_and_carry_choices_source_and_time(board):
    uids = {f"team-{one.uid}" for one in BOARDS}
    body = drawn(board, Options(uid_prefix="team-"))
    assert body["uid"] in uids
    inner = [url for url in urls(body) if url.startswith("/d/")]
    for url in inner:
        assert url.split("/")[2].partition("?")[0] in uids
        assert "var-cluster=${__" in url
        assert url.endswith("var-datasource=${datasource}&${__url_time_range}")
    assert body["links"][0]["tags"] == ["llm-fleet"]
    assert body["links"][0]["keepTime"]


def test_one_goes_down_from_the_cluster_to_logs_and_traces():
    leads = {board.uid: set(urls(drawn(board))) for board in BOARDS}
    assert any(url.startswith("/d/llm-pool?") and "var-pool=${__data.fields.pool}" in url for url in leads["llm-cluster"])
    assert any(url.startswith("/d/llm-pool?") and "var-pool=${__field.labels.pool}" in url for url in leads["llm-cluster"])
    assert any(url.startswith("/d/llm-pod?") and "var-pod=${__data.fields.pod}" in url for url in leads["llm-pool"])
    panes = [json.loads(unquote(url.split("panes=")[1])) for url in leads["llm-pod"] if url.startswith("/explore")]
    assert {pane["a"]["datasource"] for pane in panes} == {"$logs", "$traces"}
    queries = [pane["a"]["queries"][0] for pane in panes]
    assert '{namespace=~"${__data.fields.namespace}", pod=~"${__data.fields.pod}"}' in {one.get("expr") for one in queries}
    assert '{namespace=~"${namespace:pipe}", pod=~"${pod:pipe}"}' in {one.get("expr") for one in queries}
    assert all(pane["a"]["range"] == {"from": "${__from}", "to": "${__to}"} for pane in panes)


def test_logs_elsewhere_need_no_choice_of_a_store():
    pod = next(board for board in BOARDS if board.uid == "llm-pod")
    body = drawn(pod, Options(logs="https://logs.example.com/?q=$cluster/$pod"))
    names = [variable["name"] for variable in body["templating"]["list"]]
    assert "logs" not in names
    assert "traces" in names
    found = {url for url in urls(body) if "logs.example.com" in url}
    assert found == {"https://logs.example.com/?q=${__data.fields.cluster}/${__data.fields.pod}",
                     "https://logs.example.com/?q=${cluster:pipe}/${pod:pipe}"}  # fmt: skip


def test_provisioning_holds_a_provider_and_its_boards(tmp_path):
    written = {str(path.relative_to(tmp_path)) for path in write(tmp_path, form=Form.PROVISIONING)}
    assert written == {"provisioning/dashboards/llm-fleet.yaml", *(f"dashboards/llm-fleet/{board.uid}.json" for board in BOARDS)}
    provider = yaml.safe_load((tmp_path / "provisioning/dashboards/llm-fleet.yaml").read_text())["providers"][0]
    assert provider["type"] == "file"
    assert provider["options"]["path"].endswith("/dashboards/llm-fleet")


def test_config_maps_hold_the_same_boards_under_the_sidecars_label(tmp_path):
    written = write(tmp_path, Options(uid_prefix="Team_A-"), Form.CONFIGMAPS)
    assert len(written) == len(BOARDS)
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert len(text.encode()) < 256 * 1024  # of `kubectl apply`'s annotation
        body = yaml.safe_load(text)
        assert (body["apiVersion"], body["kind"]) == ("v1", "ConfigMap")
        assert body["metadata"]["labels"] == {"grafana_dashboard": "1"}
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", body["metadata"]["name"])
        ((name, board),) = body["data"].items()
        uid = Path(name).stem
        same = next(drawn(one, Options(uid_prefix="Team_A-")) for one in BOARDS if f"Team_A-{one.uid}" == uid)
        assert json.loads(board) == same


def test_the_command_passes_everything_on(tmp_path):
    arguments = ["--match", "env=prod", "--uid-prefix", "a-", "--refresh", "5m", "--docs-url", "https://d.example.com/x.md"]
    done = CliRunner().invoke(main, ["render", "dashboards", "--out", str(tmp_path), *arguments])
    assert done.exit_code == 0, done.output
    board = json.loads((tmp_path / "a-llm-pool.json").read_text(encoding="utf-8"))
    assert (board["uid"], board["refresh"]) == ("a-llm-pool", "5m")
    assert "https://d.example.com/x.md#requests" in json.dumps(board)
    assert all('env="prod"' in expression for expression in expressions(board))


def test_boards_that_never_ask_again(tmp_path):
    assert drawn(BOARDS[0], Options(refresh=""))["refresh"] == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--match", "env"], "'env' is no matcher such as env=prod"),
        (["--match", "env=~("], "env=~("),
        (["--refresh", "soon"], "refresh 'soon' is no duration"),
        (["--uid-prefix", "a b"], "uid prefix 'a b'"),
        (["--uid-prefix", "x" * 26], "uid prefix"),
        (["--format", "xml"], "--format"),
    ],
)
def test_what_cannot_be_is_refused_with_two(arguments, named, tmp_path):
    done = CliRunner().invoke(main, ["render", "dashboards", "--out", str(tmp_path), *arguments])
    assert done.exit_code == 2
    assert named in done.output
    assert not list(tmp_path.iterdir())
