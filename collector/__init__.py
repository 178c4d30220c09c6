"""The way in: engines and gateways to signals to levels. Knows no back end."""
