"""The sidecar of one engine: answers a picker with one small page, read through to the engine at that moment."""
