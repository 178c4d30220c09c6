"""Commands, a thin function each; `exporter.cli` gathers them."""
