"""The page at `/` for a person with a browser."""
