"""Print a pool's least loaded endpoint at each change of the feed: `follow_endpoints.py http://127.0.0.1:9840 llama-70b`."""

import json
import sys
import urllib.request


def events(url, pool):
    """Name and data of each server-sent event; a stream that is silent for 5 s has lost its server."""
    with urllib.request.urlopen(f"{url}/picker/v1/stream?pool={pool}", timeout=5) as stream:
        name = ""
        for line in stream:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)


def main(url, pool):
    endpoints = {}
    for name, data in events(url, pool):
        if name == "alive":  # what we hold is still true
            continue
        for gone in data.get("removed", []):
            endpoints.pop((gone["namespace"], gone["pool"], gone["pod"], gone["address"]), None)
        for one in data["endpoints"]:
            endpoints[one["namespace"], one["pool"], one["pod"], one["address"]] = one
        usable = [one for one in endpoints.values() if one["state"] == "fresh" and one["requests_waiting"] is not None]
        best = min(usable, key=lambda one: (one["requests_waiting"], one["kv_cache_usage_ratio"] or 0), default=None)
        print(best["address"] if best else "none", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
