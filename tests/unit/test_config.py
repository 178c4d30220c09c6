"""The configuration: good ones mean what they say, bad ones are named by file, key and what would be right."""

from pathlib import Path

import pytest

from collector.health import Limits
from collector.scoring import Full
from exporter.config import Config, ConfigError, load_config, normal_url, parse_config


def parse(text: str) -> Config:
    return parse_config(text, name="fleet.yaml")


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("fleet.yaml: ")
    assert "\n" not in message
    return message.removeprefix("fleet.yaml: ")


def targets(*lines: str) -> str:
    return "cluster: c\nstatic_targets:\n" + "".join(f"- {line}\n" for line in lines)


# --- what is good -------------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_documented_ones() -> None:
    config = parse("cluster: prod-east\n")
    assert (config.cluster, config.region, config.targets) == ("prod-east", "", ())
    assert (config.fast_interval, config.full_interval, config.deadline, config.max_body) == (1.0, 5.0, 2.0, 16 << 20)
    assert config.limits == Limits(stale_after=3.0, down_after=15.0, no_progress_after=30.0, warming_for=60.0, gap_limit=300.0,
                                   window=60.0, full_interval=5.0)  # fmt: skip
    assert config.full == Full(5.0, 0.8)
    assert config.max_pods == 500


def test_every_key_is_taken() -> None:
    config = parse("""
        cluster: {name: prod-east, region: us-east-1}
        scrape: {fast_interval: 50ms, full_interval: 2s, deadline: 500ms, max_body: 1MiB, stale_after: 1s, down_after: 10s,
                 no_progress_after: 20s, warming_for: 2m, gap_limit: 1h}
        window: 5m
        saturation: {requests_waiting: 8, kv_cache_usage: 0.9}
        pods: {max: 0}
        static_targets:
        - {pool: llama, namespace: serving, urls: ["http://10.0.0.1:8000"], model: m, engine: vllm, role: decode,
           accelerator: H100, cost_tier: spot}
    """)
    assert (config.region, config.fast_interval, config.deadline, config.max_body) == ("us-east-1", 0.05, 0.5, 1 << 20)
    assert config.limits == Limits(stale_after=1.0, down_after=10.0, no_progress_after=20.0, warming_for=120.0, gap_limit=3600.0,
                                   window=300.0, full_interval=2.0)  # fmt: skip
    assert (config.full, config.max_pods) == (Full(8.0, 0.9), 0)
    (target,) = config.targets
    assert target.url == "http://10.0.0.1:8000/metrics"
    assert (target.namespace, target.pool, target.pod, target.model) == ("serving", "llama", "10.0.0.1:8000", "m")
    assert (target.engine, target.role, target.accelerator, target.cost_tier) == ("vllm", "decode", "H100", "spot")


def test_anchors_and_merging_are_understood() -> None:
    text = targets("&base {pool: a, namespace: n, urls: ['http://h:1']}", "{<<: *base, pool: b, urls: ['http://h:2']}")
    assert [(one.namespace, one.pool, one.pod) for one in parse(text).targets] == [("n", "a", "h:1"), ("n", "b", "h:2")]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://10.0.0.1:8000", "http://10.0.0.1:8000/metrics"),
        ("http://10.0.0.1:8000/", "http://10.0.0.1:8000/metrics"),
        ("http://10.0.0.1:8000/other/metrics", "http://10.0.0.1:8000/other/metrics"),
        ("HTTP://Pod-1.Svc:08000", "http://pod-1.svc:8000/metrics"),
        ("http://pod_1", "http://pod_1:80/metrics"),
        ("https://pod", "https://pod:443/metrics"),
        ("http://[::1]:8000", "http://[::1]:8000/metrics"),
        ("http://[0:0:0:0:0:0:0:1]:8000/metrics", "http://[::1]:8000/metrics"),
        ("http://[2001:DB8::A]", "http://[2001:db8::a]:80/metrics"),
        ("http://h:1?name[]=a", "http://h:1/metrics?name[]=a"),
        ("http://h:1/metrics?who=a@b", "http://h:1/metrics?who=a@b"),
        ("http://bücher:1", "http://bücher:1/metrics"),
    ],
)
def test_urls_have_one_spelling(text: str, url: str) -> None:
    assert normal_url(text) == url
    assert normal_url(url) == url


def test_two_paths_on_one_port_are_two_pods_with_names_of_their_own() -> None:
    config = parse(targets("{pool: p, urls: ['http://h:1/a', 'http://h:1/b', 'http://h:2']}"))
    assert [one.pod for one in config.targets] == ["h:1/a", "h:1/b", "h:2"]
    assert len({one.pod_key for one in config.targets}) == 3
    assert len({one.key for one in config.targets}) == 3
    assert {one.address for one in config.targets} == {"h:1", "h:2"}


def test_one_port_in_two_pools_keeps_its_name_in_each() -> None:
    config = parse(targets("{pool: a, urls: ['http://h:1/a']}", "{pool: b, urls: ['http://h:1/b']}"))
    assert [one.pod for one in config.targets] == ["h:1", "h:1"]
    assert len({one.pod_key for one in config.targets}) == 2


def test_ipv6_pods_keep_their_brackets() -> None:
    (target,) = parse(targets("{pool: p, urls: ['http://[fd00::1]:8000']}")).targets
    assert (target.pod, target.address) == ("[fd00::1]:8000", "[fd00::1]:8000")


# --- what is not --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ("clustr: a", "clustr", "cluster"),
        ("cluster: c\nstatictargets: []", "statictargets", "static_targets"),
        ("cluster: {nam: a}", "cluster.nam", "name"),
        ("cluster: {name: a, regoin: b}", "cluster.regoin", "region"),
        ("cluster: c\nscrape: {fast_intervall: 1s}", "scrape.fast_intervall", "fast_interval"),
        ("cluster: c\nscrape: {staleafter: 1s}", "scrape.staleafter", "stale_after"),
        ("cluster: c\nsaturation: {requests_wating: 1}", "saturation.requests_wating", "requests_waiting"),
        ("cluster: c\npods: {maxx: 1}", "pods.maxx", "max"),
        (targets("{pool: a, urls: ['http://h:1']}", "{pol: p, urls: ['http://h:2']}"), "static_targets[1].pol", "pool"),
        (targets("{pool: p, url: ['http://h:2']}"), "static_targets[0].url", "urls"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(text: str, key: str, hint: str) -> None:
    assert complaint(text) == f"{key}: unknown key; did you mean '{hint}'?"


@pytest.mark.parametrize(
    ("text", "known"),
    [("cluster: c\nxyz: 1", "cluster, scrape"), ("cluster: c\nscrape: {xyz: 1}", "fast_interval, full_interval"),
     (targets("{pool: p, xyz: 1, urls: []}"), "pool, urls")],
)  # fmt: skip
def test_an_unknown_key_that_is_near_nothing_lists_the_known_ones(text: str, known: str) -> None:
    assert f"xyz: unknown key; known keys: {known}" in complaint(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [("scrape: {}", "cluster"), ("cluster: {region: a}", "cluster.name"), (targets("{pool: p}"), "static_targets[0].urls"),
     (targets("{urls: ['http://h:1']}"), "static_targets[0].pool")],
)  # fmt: skip
def test_a_missing_key_is_named(text: str, key: str) -> None:
    assert complaint(text) == f"{key}: missing; it is required"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster: 5", "cluster: expected text or keys with values, got a whole number"),
        ("cluster: yes", "cluster: expected text or keys with values, got true or false"),
        ("cluster:", "cluster: expected text or keys with values, got nothing"),
        ("cluster: {name: 5}", "cluster.name: expected text, got a whole number"),
        ("cluster: c\nscrape: 5", "scrape: expected keys with values, got a whole number"),
        ("cluster: c\nscrape:", "scrape: expected keys with values, got nothing"),
        ("cluster: c\npods: {max: many}", "pods.max: expected a whole number, got text"),
        ("cluster: c\npods: {max: 1.5}", "pods.max: expected a whole number, got a number"),
        ("cluster: c\npods: {max: -1}", "pods.max: expected 0 or more, got -1"),
        ("cluster: c\nstatic_targets: {}", "static_targets: expected a list, got keys with values"),
        ("cluster: c\nstatic_targets:", "static_targets: expected a list, got nothing"),
        (targets("http://h:1"), "static_targets[0]: expected keys with values, got text"),
        (targets("{pool: p, urls: 'http://h:1'}"), "static_targets[0].urls: expected a list, got text"),
        (targets("{pool: p, urls: ['http://h:1', 8]}"), "static_targets[0].urls[1]: expected text, got a whole number"),
        (targets("{pool: 7, urls: ['http://h:1']}"), "static_targets[0].pool: expected text, got a whole number"),
        (targets("{pool: p, urls: []}"), "static_targets[0].urls: expected at least one URL"),
        (targets("{pool: '', urls: ['http://h:1']}"), "static_targets[0].pool: expected a name, got an empty text"),
        (
            targets("{pool: p, namespace: ' ', urls: ['http://h:1']}"),
            "static_targets[0].namespace: expected a name, got an empty text",
        ),
        (
            targets("{pool: p, engine: vlm, urls: ['http://h:1']}"),
            "static_targets[0].engine: expected one of vllm, sglang, tgi, got 'vlm'",
        ),
        (
            targets("{pool: p, role: x, urls: ['http://h:1']}"),
            "static_targets[0].role: expected one of both, prefill, decode, got 'x'",
        ),
        (
            targets(r'{pool: "p\n# evil", urls: ["http://h:1"]}'),
            r"static_targets[0].pool: expected a text without control characters, got 'p\n# evil'",
        ),
        (
            targets(r'{pool: p, namespace: "n\u2028", urls: ["http://h:1"]}'),
            r"static_targets[0].namespace: expected a text without control characters, got 'n\u2028'",
        ),
        (r'cluster: "c\e[2J"', r"cluster: expected a text without control characters, got 'c\x1b[2J'"),
        (
            r'cluster: {name: c, region: "r\n"}',
            r"cluster.region: expected a text without control characters, got 'r\n'",
        ),
        (
            'cluster: c\npicker: {endpoints_files: [{pool: "p\\n", namespace: n, path: e.yaml}]}',
            r"picker.endpoints_files[0].pool: expected a text without control characters, got 'p\n'",
        ),
        ("cluster: ''", "cluster: expected a name, got an empty text"),
        ("cluster: {name: '  '}", "cluster: expected a name, got an empty text"),
        ("cluster: c\nsaturation: {requests_waiting: 0}", "saturation.requests_waiting: expected a number above 0, got 0"),
        ("cluster: c\nsaturation: {requests_waiting: .inf}", "saturation.requests_waiting: expected a number above 0, got inf"),
        ("cluster: c\nsaturation: {requests_waiting: .nan}", "saturation.requests_waiting: expected a number above 0, got nan"),
        (
            "cluster: c\nsaturation: {kv_cache_usage: 80}",
            "saturation.kv_cache_usage: expected a number above 0 and at most 1, got 80",
        ),
    ],
)
def test_a_wrong_value_says_what_would_be_right(text: str, message: str) -> None:
    assert complaint(text) == message


@pytest.mark.parametrize("value", ["2", "2 s", "two", "0s", "-1s", "[1s]", "{a: 1s}", "", "true", "1e9h"])
@pytest.mark.parametrize(
    "key", ["fast_interval", "full_interval", "deadline", "stale_after", "down_after", "gap_limit", "warming_for"]
)
def test_a_bad_duration_is_named_by_its_key(key: str, value: str) -> None:
    message = complaint(f"cluster: c\nscrape: {{{key}: {value}}}")
    assert message.startswith(f"scrape.{key}: expected a duration from 1ms to 8760h, such as 50ms, 1s or 5m, got ")


def test_a_bad_window_and_a_bad_size_are_named() -> None:
    assert complaint("cluster: c\nwindow: 60").startswith("window: expected a duration")
    assert complaint("cluster: c\nscrape: {max_body: 16}").startswith("scrape.max_body: expected a size above zero such as ")


@pytest.mark.parametrize(
    ("scrape", "low", "high"),
    [
        ("fast_interval: 4s", "fast_interval (4s)", "stale_after (3s)"),
        ("fast_interval: 2s, full_interval: 1s", "fast_interval (2s)", "full_interval (1s)"),
        ("stale_after: 20s", "stale_after (20s)", "down_after (15s)"),
        ("gap_limit: 500ms", "fast_interval (1s)", "gap_limit (500ms)"),
        ("gap_limit: 2s", "full_interval (5s)", "gap_limit (2s)"),
    ],
)
def test_times_that_contradict_each_other_name_both_keys(scrape: str, low: str, high: str) -> None:
    assert complaint(f"cluster: c\nscrape: {{{scrape}}}") == f"scrape.{low} must not be longer than scrape.{high}"


@pytest.mark.parametrize(
    "url",
    [
        "", " ", "h", "h:8000", "localhost:8000", "10.0.0.1:8000", "//h:1", "/metrics", "http", "http:", "http://", "http:///metrics",
        "http://:8000", "http:/h:1", "http//h:1", "ftp://h:1", "unix:///run/x.sock", "file:///etc/passwd", "javascript:alert(1)",
        "http://h:0", "http://h:65536", "http://h:-1", "http://h:port", "http://h:", "http://h:8000:9000", "http://::1:8000",
        "http://[::1", "http://::1]", "http://[x]:1", "http://[127.0.0.1]:1", "http://{host}:1", "http://a,b:1", "http://h%20:1",
        "http://a b:1", "http://h:1/a b", "http://h:1\n", "\thttp://h:1", "http://h\x00:1", "http://h\\x:1", "http://h:1/\u200b",
    ],
)  # fmt: skip
def test_a_bad_url_is_named_with_what_would_be_right(url: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a URL such as http://10\.0\.0\.1:8000 or https://pod:8000/metrics, got"):
        normal_url(url)


def test_a_bad_url_is_named_by_its_place() -> None:
    message = complaint(targets("{pool: a, urls: ['http://h:1']}", "{pool: b, urls: ['http://h:2', 'h:3']}"))
    assert message.startswith("static_targets[1].urls[1]: expected a URL such as ")
    assert "'h:3'" in message


@pytest.mark.parametrize(
    "url",
    ["http://me:SECRET@h:1", "http://SECRET@h:1", "http://me:SECRET@h:99999", "ftp://me:SECRET@h", "me:SECRET@h:1",
    "http:/me:SECRET@h",
     "http://me:SECRET@[bad"],
)  # fmt: skip
def test_a_password_in_a_url_is_refused_and_never_repeated(url: str) -> None:
    message = complaint(targets(f"{{pool: p, urls: ['{url}']}}"))
    assert message == "static_targets[0].urls[0]: a URL must not hold a user, a password or any other @"


def test_a_fragment_is_refused() -> None:
    assert "fragment (#top)" in complaint(targets("{pool: p, urls: ['http://h:1/metrics#top']}"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://h:1", "http://h:1"), ("http://h:1", "http://h:1/metrics"), ("http://H:1/", "http://h:1"), ("http://h", "http://h:80"),
        ("http://h:08", "http://h:8"), ("https://h", "https://h:443/metrics"), ("http://[::1]:1", "http://[0::1]:1"),
        ("http://h:1", "https://h:1"),
    ],
)  # fmt: skip
def test_a_repeated_url_names_both_places(first: str, second: str) -> None:
    message = complaint(targets("{pool: a, urls: ['http://x:1']}", f"{{pool: b, urls: ['{first}']}}",
                                f"{{pool: c, urls: ['http://y:1', '{second}']}}"))  # fmt: skip
    assert message.startswith("static_targets[2].urls[1]: ")
    assert "stands already at static_targets[1].urls[0]" in message


# --- files --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "nothing"),
        ("# only a comment\n", "nothing"),
        ("---\n", "nothing"),
        ("- a\n", "a list"),
        ("hello", "a single value"),
        ("5", "a single value"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, found: str) -> None:
    assert complaint(text) == f"expected keys such as 'cluster' and 'static_targets', got {found}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster: a\ncluster: b\n", "line 2, column 1: key 'cluster' stands twice, first on line 1"),
        (
            "cluster: c\nscrape:\n  deadline: 1s\n  deadline: 2s\n",
            "line 4, column 3: key 'deadline' stands twice, first on line 3",
        ),
        ("{cluster: a, 'cluster': b}", "line 1, column 14: key 'cluster' stands twice, first on line 1"),
        (targets("{pool: p, urls: [], pool: q}"), "line 3, column 23: key 'pool' stands twice, first on line 3"),
        ("cluster: a\n\tscrape: {}\n", "line 2, column 1: found character '\\t' that cannot start any token"),
        ("cluster: [a\n", "line 2, column 1: expected ',' or ']', but got '<stream end>'"),
        ("cluster: a: b\n", "line 1, column 11: mapping values are not allowed here"),
        ("cluster: 'a\n", "line 2, column 1: found unexpected end of stream"),
        ("cluster: *a\n", "line 1, column 10: found undefined alias 'a'"),
        ("1: a\n", "line 1, column 1: a key must be text"),
        ("on: a\n", "line 1, column 1: a key must be text"),
        ("? [a]\n: b\n", "line 1, column 3: a key must be text"),
    ],
)
def test_broken_yaml_is_named_by_its_line(text: str, message: str) -> None:
    assert complaint(text) == f"not valid YAML: {message}"


@pytest.mark.parametrize(
    "text",
    [
        "cluster: a\n---\ncluster: b\n", "cluster: 2001-99-99", "cluster: !!int abc", "cluster: !!float x",
        "cluster: !!bool maybe",
        "cluster: !!timestamp abc", "cluster: !!binary x", "cluster: !!python/object/apply:os.getcwd []", "cluster: !mine x",
        "cluster: " + "9" * 5000, "[" * 5000, "a: {" * 3000, "<<: 5\n", "<<: [5]\n", "cluster: \x00", "cluster: \x1b",
        "%YAML 9.9\n---\ncluster: c\n",
    ],
)  # fmt: skip
def test_yaml_that_breaks_its_reader_is_one_line(text: str) -> None:
    message = complaint(text)
    assert message.startswith("not valid YAML: ")
    assert len(message) < 300


def test_a_bomb_of_merges_does_not_go_off() -> None:
    lines = ["x0: &x0 {a: 1}", *(f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}" for n in range(1, 60))]
    assert complaint("cluster: c\n" + "\n".join(lines)).startswith("x0: unknown key")


@pytest.mark.parametrize("place", ["cluster", "window", "pods", "static_targets", "scrape: {deadline", "scrape: {max_body"])
def test_a_bomb_of_aliases_does_not_go_off(place: str) -> None:
    nested = "[a, a]"
    anchors = []
    for number in range(60):
        anchors.append(f"&x{number} {nested}")
        nested = f"[*x{number}, *x{number}]"
    end = "}" if "{" in place else ""
    first = "cluster: c\n" if place != "cluster" else ""
    text = f"{first}{place}: [{', '.join([*anchors, nested])}]{end}\n"
    message = complaint(text)
    assert message.startswith(place.replace(": {", "."))
    assert len(message) < 300


def test_a_file_on_disk_is_read_as_utf8_with_or_without_a_mark(tmp_path: Path) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        path = tmp_path / "fleet.yaml"
        path.write_bytes(mark + "cluster: östlich\r\n".encode())
        assert load_config(path).cluster == "östlich"


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00\x01", b"\xff\xfec\x00l\x00", b"cluster: \xe9\n", b"\x00" * 100])
def test_a_binary_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"fleet\.yaml: (not a text file in UTF-8|not valid YAML)"):
        load_config(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"line 1.*lone surrogate"):
        parse_config('cluster: "a\\ud800b"\n')
